package main

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ustack/cmd/internal/cli"
	"ustack/tools/profile"
)

// A presentation says which part of a profile is shown.
type presentation struct {
	internal bool
	native   bool
	lines    bool
	tiers    bool
	runtime  bool
	jsOnly   bool
	thread   string
	include  string
	exclude  string
	percent  float64
}

// register gives cmd the flags that say which part of a profile is shown.
func (s *presentation) register(flags *pflag.FlagSet) {
	flags.BoolVar(&s.internal, "internal", false, "show V8's typed frames and builtin internals")
	flags.BoolVar(&s.native, "native", false, "list native functions too, not only the program's own")
	flags.BoolVar(&s.lines, "lines", false, "separate the lines of a function that execute")
	flags.BoolVar(&s.runtime, "runtime", false, "show what V8 does as one frame: GC, parse, compile …")
	flags.BoolVar(&s.tiers, "tier", false, "show the tier of each frame, such as turbofan")
	flags.BoolVar(&s.jsOnly, "js-only", false, "show only functions of JavaScript and WebAssembly")
	flags.StringVar(&s.thread, "thread", "", "show only threads whose name or number matches `GLOB`")
	flags.StringVar(&s.include, "include", "", "show only stacks with a frame that matches `REGEXP`")
	flags.StringVar(&s.exclude, "exclude", "", "leave out stacks with a frame that matches `REGEXP`")
	flags.StringVar(&s.include, "filter", "", "the same as --include `REGEXP`")
	flags.Float64Var(&s.percent, "min", 0, "leave out functions with less than this `PERCENT`")
}

// check reports flags that make no sense.
func (s presentation) check() error {
	switch {
	case s.percent < 0 || s.percent > 100:
		return cli.Usagef("--min %v is no percentage", s.percent)
	case s.native && s.jsOnly:
		return cli.Usagef("give only one of --native and --js-only")
	}
	for _, pattern := range []struct{ flag, text string }{{"include", s.include}, {"exclude", s.exclude}} {
		if _, err := regexp.Compile(pattern.text); err != nil {
			return cli.Usagef("--%s: %v", pattern.flag, err)
		}
	}
	if _, err := new(profile.Profile).Thread(s.thread); err != nil {
		return cli.Usagef("--thread: %v", err)
	}
	return nil
}

// options are those of every format.
func (s presentation) options() profile.Options {
	return profile.Options{Native: s.native, Lines: s.lines, Tiers: s.tiers, MinPercent: s.percent}
}

// served returns profiles as pprof's pages show them.
func (s presentation) served(all []*profile.Profile) []*profile.Profile {
	if !s.tiers {
		return all
	}
	var by []*profile.Profile
	for _, p := range all {
		by = append(by, p.ByTier())
	}
	return by
}

// checkThread checks before sampling that there are threads to show. A number
// that no thread has is an error; a name that no thread has is only noted,
// because threads may start later.
func (s presentation) checkThread(pids cli.PIDs, messages *cli.Messages) error {
	if s.thread == "" || len(pids) == 0 {
		return nil
	}
	threads := threadsOf(pids)
	if len(threads) == 0 || slices.ContainsFunc(threads, func(t thread) bool { return t.matches(s.thread) }) {
		return nil
	}
	if _, err := strconv.Atoi(s.thread); err == nil {
		return fmt.Errorf("--thread %s: process %v has no such thread", s.thread, &pids)
	}
	messages.Notef("no thread matches %q yet (there are: %s)", s.thread, names(threads))
	return nil
}

// A thread is a thread of a process.
type thread struct {
	tid  string
	name string
}

func (t thread) matches(glob string) bool {
	byName, _ := path.Match(glob, t.name)
	byNumber, _ := path.Match(glob, t.tid)
	return byName || byNumber
}

// threadsOf returns the threads of processes; it skips processes that have
// exited.
func threadsOf(pids []int) []thread {
	var threads []thread
	for _, pid := range pids {
		tasks := fmt.Sprintf("/proc/%d/task", pid)
		entries, _ := os.ReadDir(tasks)
		for _, entry := range entries {
			name, _ := os.ReadFile(path.Join(tasks, entry.Name(), "comm"))
			threads = append(threads, thread{entry.Name(), strings.TrimSuffix(string(name), "\n")})
		}
	}
	return threads
}

// names lists the names of threads, each once.
func names(threads []thread) string {
	var names []string
	for _, t := range threads {
		names = append(names, strconv.Quote(t.name))
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// applyAll returns the parts of profiles to show, in their order. It is an error if nothing matches
// in any.
func (s presentation) applyAll(all []*profile.Profile) ([]*profile.Profile, error) {
	shown := make([]*profile.Profile, len(all))
	var first error
	matches := false
	for i, p := range all {
		part, err := s.apply(p)
		if err != nil {
			empty := *p
			empty.Stacks, empty.Total, empty.Events = nil, 0, 0
			part, first = &empty, cmp.Or(first, err)
		}
		matches = matches || err == nil
		shown[i] = part
	}
	if !matches {
		return nil, first
	}
	return shown, nil
}

// apply returns the part of p to show. It is an error if nothing matches.
func (s presentation) apply(p *profile.Profile) (*profile.Profile, error) {
	if s.runtime {
		p = p.Runtime()
	}
	if !s.internal {
		p = p.WithoutTyped()
	}
	p, err := s.selected(p)
	if err != nil {
		return nil, err
	}
	if s.thread != "" {
		of, err := p.Thread(s.thread)
		switch {
		case err != nil:
			return nil, err
		case of.Total == 0:
			return nil, fmt.Errorf("--thread %s: no sample is of such a thread (threads that have any: %s)", s.thread, names(sampled(p)))
		}
		p = of
	}
	if s.jsOnly {
		p = p.JSOnly()
	}
	return p.Merge(), nil
}

// selected returns the stacks of p to show. It is an error if there are none.
func (s presentation) selected(p *profile.Profile) (*profile.Profile, error) {
	if s.include != "" {
		matching := p.Filter(regexp.MustCompile(s.include))
		if matching.Total == 0 {
			return nil, fmt.Errorf("--include %s: no stack matches (of %d samples)", s.include, p.Total)
		}
		p = matching
	}
	if s.exclude != "" {
		others := p.Exclude(regexp.MustCompile(s.exclude))
		if others.Total == 0 && p.Total > 0 {
			return nil, fmt.Errorf("--exclude %s: every stack matches (of %d samples)", s.exclude, p.Total)
		}
		p = others
	}
	return p, nil
}

// sampled returns the threads with samples in p.
func sampled(p *profile.Profile) []thread {
	var threads []thread
	for _, s := range p.Stacks {
		threads = append(threads, thread{strconv.Itoa(s.TID), s.Thread})
	}
	return threads
}
