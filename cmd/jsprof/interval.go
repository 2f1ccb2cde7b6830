package main

import (
	"errors"
	"path"
	"strings"
	"time"

	"ustack/cmd/internal/cli"
	"ustack/tools/outfile"
	"ustack/tools/profile"
)

// leastInterval keeps the names of files, which have seconds, apart.
const leastInterval = time.Second

// checkInterval reports what makes no sense with --interval.
func (f *flags) checkInterval() error {
	switch interval := time.Duration(f.interval); {
	case interval == 0:
	case interval < leastInterval:
		return cli.Usagef("--interval must be %v or longer", leastInterval)
	case f.push.continuous:
	case f.output == "" || strings.HasPrefix(f.output, "/dev/"):
		return cli.Usagef("--interval writes files (name them: -o NAME.EXT)")
	case f.annotate.functions != "":
		return cli.Usagef("give only one of --interval and --annotate")
	case f.jsprof.Memory != "":
		return cli.Usagef("give only one of --interval and --alloc or --gc")
	}
	return nil
}

// A series writes a file for each interval, named by the time at which it began.
type series struct {
	flags    *flags
	format   profile.Format
	messages *cli.Messages
	files    int
	err      error  // why a file could not be written: sampling ends
	stop     func() // ends sampling
}

// name returns the name of the file of an interval: NAME-20060102T150405.EXT.
func (s *series) name(begin time.Time) string {
	extension := path.Ext(s.flags.output)
	for _, known := range s.format.Extensions {
		if strings.HasSuffix(strings.ToLower(s.flags.output), known) && len(known) > len(extension) {
			extension = s.flags.output[len(s.flags.output)-len(known):]
		}
	}
	return strings.TrimSuffix(s.flags.output, extension) + "-" + begin.Format("20060102T150405") + extension
}

// write writes what was taken in an interval. An interval without anything to show has no file.
func (s *series) write(all []*profile.Profile) {
	if s.err != nil {
		return
	}
	shown, err := s.flags.present.applyAll(all)
	if err != nil {
		s.messages.Notef("%v", err)
		return
	}
	name := s.name(shown[0].Start)
	file, err := outfile.Open(name, outfile.Options{})
	if err == nil {
		err = errors.Join(s.flags.save(file, s.format, shown), file.Close())
	}
	if err != nil {
		s.err = err
		s.stop()
		return
	}
	s.files++
	s.messages.Clear()
	s.messages.Notef("wrote %s", name)
}
