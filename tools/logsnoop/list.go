package logsnoop

import (
	"cmp"
	"debug/elf"
	"errors"
	"slices"

	"ustack/symbolize/elfsym"
	"ustack/symbolize/process"
	"ustack/symbolize/reader"
	"ustack/tools/event"
)

// A Listed is a static probe that a process has.
type Listed struct {
	Provider  string `json:"provider"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // as in its note, such as "8@(%rdi) -4@%esi"
	File      string `json:"file"`      // that has it, in the process
}

// List returns the static probes in the files whose code process pid has mapped, and that match one
// of the patterns, by name; all if there are no patterns. Errors are those of files that could not be
// read.
func List(pid int, patterns []event.USDT) (all []Listed, unread, err error) {
	p, err := process.Open(pid)
	if err != nil {
		return nil, nil, err
	}
	defer p.Close()
	maps, err := p.Maps()
	if err != nil {
		return nil, nil, err
	}
	var files reader.Reader
	defer files.Close()
	var errs []error
	seen := make(map[[2]uint64]bool)
	for _, m := range maps {
		id := [2]uint64{m.Dev, m.Inode}
		if !m.File() || !m.Perms.Exec() || seen[id] {
			continue
		}
		seen[id] = true
		found, err := probesOf(&files, p, m)
		errs = append(errs, err)
		for _, u := range found {
			if matches(patterns, m.Path, u) {
				all = append(all, Listed{u.Provider, u.Name, u.Arguments, m.Path})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Listed) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Name, b.Name), cmp.Compare(a.File, b.File))
	})
	return slices.Compact(all), errors.Join(errs...), nil
}

func probesOf(files *reader.Reader, p *process.Process, m process.Mapping) ([]elfsym.USDT, error) {
	file, err := files.Mapped(p, m)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all, err := elfsym.USDTs(file)
	var notELF *elf.FormatError
	if errors.As(err, &notELF) {
		return nil, nil
	}
	return all, err
}

func matches(patterns []event.USDT, file string, u elfsym.USDT) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p event.USDT) bool { return p.Matches(file, u) })
}
