package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ustack/cmd/internal/cli"
	"ustack/tools/labels"
	"ustack/tools/profile"
	"ustack/tools/push"
)

// pushFlags say where profiles are sent, and what they say about their processes.
type pushFlags struct {
	continuous bool
	url        string
	headers    string
	services   services
	labels     fixedLabels

	receiver *push.Receiver // once checked
}

// defaultInterval is how long a profile lasts that is pushed continuously.
const defaultInterval = time.Minute

// flushLimit bounds how long the end waits for a receiver.
const flushLimit = 10 * time.Second

func (p *pushFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&p.url, "push", "", "send a profile of each process to the receiver at `URL`: "+strings.Join(push.Protocols(), ", ")+"://HOST:PORT")
	flags.BoolVar(&p.continuous, "continuous", false, "send them each minute, or --interval, until Ctrl-C or SIGTERM")
	flags.StringVar(&p.headers, "push-headers", "", "send the headers in `FILE` with each request, such as Authorization")
	flags.Var(&p.services, "service", "name services by the first of `SOURCES` that has one: "+labels.Sources)
	flags.Var(&p.labels, "label", "label all profiles with `NAME=VALUE`")
}

// services is the value of --service.
type services []labels.Source

func (s *services) Type() string { return "SOURCES" }

func (s *services) String() string {
	var names []string
	for _, source := range *s {
		names = append(names, source.String())
	}
	return strings.Join(names, ",")
}

func (s *services) Set(text string) error {
	*s = nil
	for word := range strings.SplitSeq(text, ",") {
		source, err := labels.ParseSource(word)
		if err != nil {
			return err
		}
		*s = append(*s, source)
	}
	return nil
}

// fixedLabels is the value of --label.
type fixedLabels []labels.Label

func (l *fixedLabels) Type() string   { return "NAME=VALUE" }
func (l *fixedLabels) String() string { return "" }

func (l *fixedLabels) Set(text string) error {
	label, err := labels.Parse(text)
	if err != nil {
		return err
	}
	*l = append(slices.DeleteFunc(*l, func(old labels.Label) bool { return old.Name == label.Name }), label)
	return nil
}

// checkPush reports what makes no sense with --push, and prepares its receiver.
func (f *flags) checkPush() error {
	p := &f.push
	switch {
	case p.url == "" && p.continuous:
		return cli.Usagef("--continuous needs a receiver (--push %s://HOST:PORT)", strings.Join(push.Protocols(), "://HOST:PORT, "))
	case p.url == "" && (p.headers != "" || len(p.services) > 0 || len(p.labels) > 0):
		return cli.Usagef("--push-headers, --service and --label are for profiles that are sent (add --push URL)")
	case p.url == "":
		return nil
	case f.output != "" || f.format != "" || f.json || f.http != "":
		return cli.Usagef("--push sends the profile (leave out -o, --format, --json and --http)")
	case f.annotate.functions != "":
		return cli.Usagef("give only one of --push and --annotate")
	case f.jsprof.Quantize:
		return cli.Usagef("give only one of --push and --quantize")
	case f.jsprof.Memory != "" && p.continuous:
		return cli.Usagef("give only one of --continuous and --alloc or --gc")
	case f.interval > 0 && !p.continuous:
		return cli.Usagef("--interval writes files (to send profiles that often, add --continuous)")
	}
	var headers http.Header
	var err error
	if p.headers != "" {
		if headers, err = push.ReadHeaders(p.headers); err != nil {
			return cli.Usagef("--push-headers: %v", err)
		}
	}
	if p.receiver, err = push.Parse(p.url, headers); err != nil {
		return cli.Usagef("--push: %v", err)
	}
	return nil
}

// A stream sends the profiles of processes to a receiver.
type stream struct {
	flags    *flags
	messages *cli.Messages
	pusher   *push.Pusher
	labels   *labels.Reader
	dropped  map[string]push.Loss // that were reported
	lost     uint64               // samples that the kernel had no room for
}

// runPush samples, and sends what was sampled: once, or continuously.
func (f *flags) runPush(ctx context.Context, messages *cli.Messages) error {
	reader, err := labels.NewReader(labels.Options{Service: f.push.services, Fixed: f.push.labels})
	if err != nil {
		return err
	}
	s := &stream{flags: f, messages: messages, pusher: push.New(f.push.receiver, messages.Warn), labels: reader}
	if f.push.continuous {
		err = s.runContinuous(ctx)
	} else {
		err = s.runOnce(ctx)
	}
	return errors.Join(err, s.finish(), f.targets.Status())
}

// runOnce samples and sends one profile of each process.
func (s *stream) runOnce(ctx context.Context) error {
	s.flags.jsprof.Added = s.labels.Read
	all, err := s.flags.profile(ctx, s.messages)
	if err != nil {
		return err
	}
	s.lost = all[0].Lost
	s.flags.noteEmpty(all, s.messages)
	return s.send(all)
}

// send sends what was sampled, a profile of each process.
func (s *stream) send(all []*profile.Profile) error {
	for _, part := range profile.Split(all) {
		data, err := profile.PprofAll(part.Profiles)
		if err != nil {
			return err
		}
		of := append(s.labels.Of(part.PID), labels.Runtime(part.Node, part.V8)...)
		s.pusher.Push(push.Profile{Labels: of, Data: data})
	}
	return nil
}

// finish sends what waits, for some time, and reports what became of all.
func (s *stream) finish() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushLimit)
	defer cancel()
	counts := s.pusher.Close(ctx)
	s.messages.Clear()
	s.messages.Notef("pushed %d profiles (%s) to %v", counts.Profiles, s.amount(counts.Samples), s.flags.push.receiver)
	if counts.Again > 0 {
		s.messages.Notef("attempts that were repeated: %d", counts.Again)
	}
	if s.lost > 0 {
		s.messages.Notef("%d samples were lost in the kernel", s.lost)
	}
	s.reportDropped(counts)
	if len(counts.Dropped) > 0 && !s.flags.push.continuous {
		return errors.New("not all profiles were pushed")
	}
	return nil
}

// reportDropped reports what was dropped since the last call.
func (s *stream) reportDropped(counts push.Counts) {
	for _, cause := range slices.Sorted(maps.Keys(counts.Dropped)) {
		loss, before := counts.Dropped[cause], s.dropped[cause]
		if loss.Profiles == before.Profiles {
			continue
		}
		text := fmt.Sprintf("dropped %d profiles (%s) so far: %s", loss.Profiles, s.amount(loss.Samples), cause)
		if loss.Last != nil {
			text += ": " + loss.Last.Error()
		}
		s.messages.Notef("%s", text)
	}
	s.dropped = counts.Dropped
}

// amount names a sum of values: of the first event.
func (s *stream) amount(n uint64) string {
	of := s.flags.jsprof.ValueTypes()[0]
	if of == profile.Samples {
		return fmt.Sprintf("%d samples", n)
	}
	return fmt.Sprintf("%d %s of %s", n, of.Unit, of.Type)
}
