package jscore

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"ustack/symbolize/v8/census"
)

// WatchOptions say how to watch a process.
type WatchOptions struct {
	Options
	Every time.Duration            // between the starts of two snapshots
	Count int                      // snapshots; until the process or ctx ends if 0
	Each  func(*WatchSample) error // called for each snapshot
}

// A WatchSample is the memory of a process at one time.
type WatchSample struct {
	Time     time.Time         `json:"time"`
	Resident uint64            `json:"resident"`
	Kinds    map[string]uint64 `json:"kinds"` // bytes by what they are for: the kinds of verdicts
	Stopped  time.Duration     `json:"stopped_ns"`

	first   bool
	memory  *Memory
	classes map[string]int // live objects
	dump    *Dump
}

// errFewSamples is why nothing is said about growth.
var errFewSamples = errors.New("watch: two snapshots are needed to say what grows (wait longer, or shorten --every)")

// Watch takes snapshots of the process pid until ctx is done, and says what grew.
func Watch(ctx context.Context, pid int, o WatchOptions) (_ *Watched, err error) {
	w := &watcher{pid: pid, options: o, grows: make(map[string]int)}
	defer func() { err = errors.Join(err, w.close()) }()
	timer := time.NewTicker(o.Every)
	defer timer.Stop()
	for o.Count == 0 || w.taken < o.Count {
		if err := w.take(ctx); err != nil {
			if ctx.Err() != nil {
				break
			}
			if w.taken < 2 {
				return nil, err
			}
			w.ended = err // the process has probably ended
			break
		}
		if err := o.Each(w.last); err != nil {
			return nil, err
		}
		if w.taken == o.Count {
			break
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		if ctx.Err() != nil {
			break
		}
	}
	if w.taken < 2 {
		return nil, errFewSamples
	}
	return w.conclude(context.WithoutCancel(ctx)), nil
}

// A watcher watches a process.
type watcher struct {
	pid     int
	options WatchOptions
	taken   int
	first   *WatchSample
	last    *WatchSample   // whose dump is open
	grows   map[string]int // intervals in which there came to be more live objects of a class
	ended   error          // why there is no later sample
}

func (w *watcher) close() error {
	if w.last == nil {
		return nil
	}
	return w.last.dump.Close()
}

// take takes a snapshot.
func (w *watcher) take(ctx context.Context) error {
	dump, err := Attach(ctx, w.pid, w.options.Options)
	if err != nil {
		return err
	}
	s := &WatchSample{Time: time.Now(), Stopped: dump.Taken().Stopped, dump: dump, first: w.first == nil, classes: make(map[string]int)}
	if err := s.measure(ctx); err != nil {
		return errors.Join(err, dump.Close())
	}
	if w.first == nil {
		w.first = s
	} else {
		for class, count := range s.classes {
			if count > w.last.classes[class] {
				w.grows[class]++
			}
		}
		if err := w.last.dump.Close(); err != nil {
			return errors.Join(err, dump.Close())
		}
		w.last.memory.ledger = nil // the first sample stays, but not its objects
	}
	w.last = s
	w.taken++
	return nil
}

// measure adds up the sample's memory.
func (s *WatchSample) measure(ctx context.Context) error {
	var g *Graph
	if s.dump.Heap() != nil {
		var err error
		if g, err = s.dump.Graph(ctx); err != nil {
			return err
		}
		for _, group := range census.Take(ctx, g.Graph, CensusOptions{ByClass: true, Live: true}).Groups {
			s.classes[group.Class] += group.Count
		}
	}
	m, err := s.dump.measure(ctx, g)
	if err != nil {
		return err
	}
	s.memory, s.Resident, s.Kinds = m, m.Resident, m.byKind()
	return nil
}

// watchColumns are what a line about a sample shows.
var watchColumns = []struct{ title, kind string }{
	{"OBJECTS", KindObjects},
	{"GARBAGE", KindGarbage},
	{"V8FREE", KindFreePages},
	{"BUFFERS", KindBuffers},
	{"STRINGS", KindStrings},
	{"MALLOC", KindMalloc},
	{"FREE", KindFragmentation},
}

// WriteText writes a line, in MB; the first with a head.
func (s *WatchSample) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	if s.first {
		fmt.Fprintf(out, "%-8s %9s", "TIME", "RSS")
		for _, c := range watchColumns {
			fmt.Fprintf(out, " %8s", c.title)
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "%-8s %9.1f", s.Time.Format(time.TimeOnly), float64(s.Resident)/1e6)
	for _, c := range watchColumns {
		fmt.Fprintf(out, " %8.1f", float64(s.Kinds[c.kind])/1e6)
	}
	fmt.Fprintln(out)
	return out.Flush()
}

// A Watched says what grew while a process was watched.
type Watched struct {
	Samples int               `json:"samples"`
	Seconds float64           `json:"seconds"` // between the first and the last
	Ended   string            `json:"ended,omitempty"`
	Memory  *MemoryDifference `json:"memory"`
	Suspect *Suspect          `json:"suspect,omitempty"` // nil if no class grew
	Lost    []LostGroup       `json:"lost,omitempty"`    // blocks that nothing refers to, if malloc's memory grew
}

// conclude says what grew between the first sample and the last.
func (w *watcher) conclude(ctx context.Context) *Watched {
	r := &Watched{Samples: w.taken, Seconds: w.last.Time.Sub(w.first.Time).Seconds(), Memory: DiffMemory(ctx, w.first.memory, w.last.memory)}
	if w.ended != nil {
		r.Ended = w.ended.Error()
	}
	switch r.Memory.Verdict.Kind {
	case KindMalloc:
		if lost, err := w.last.dump.FindLeaks(ctx); err == nil {
			r.Lost = lost.Groups[:min(len(lost.Groups), defaultSuspects)]
		}
	case KindFragmentation:
	default:
		r.Suspect = w.suspect(ctx)
	}
	return r
}

// WriteText writes what grew, and what keeps it.
func (r *Watched) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "\n%d snapshots in %s. ", r.Samples, time.Duration(r.Seconds*1e9).Round(time.Second))
	if err := r.Memory.WriteText(out); err != nil {
		return err
	}
	if r.Suspect != nil {
		fmt.Fprintln(out)
		if err := r.Suspect.WriteText(out); err != nil {
			return err
		}
	}
	for _, g := range r.Lost {
		fmt.Fprintf(out, "nothing refers to %d blocks of %d bytes: %s (%s)\n", g.Blocks, g.Size, cmp.Or(g.Content, "data"), g.List[0])
	}
	if r.Ended != "" {
		fmt.Fprintf(out, "the last snapshot failed: %s\n", strings.TrimSpace(r.Ended))
	}
	return out.Flush()
}
