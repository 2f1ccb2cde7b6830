package trace

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"ustack/bpf"
	"ustack/loader"
	"ustack/symbolize"
	"ustack/testdata/nodetest"
)

// anyVersion is of a Node.js for tests that are the same on all.
const anyVersion = "22.23.3"

// programs are the programs that a test session has in the kernel.
var programs = []string{bpf.JsprofProgOnSample, bpf.JsprofProgOnExec}

// A sampled is a session with jsprof's programs.
type sampled struct {
	*Session
	objects bpf.JsprofObjects
}

// openSampled opens a session; tool may leave out what is jsprof's.
func openSampled(t *testing.T, o Options, tool Tool) *sampled {
	t.Helper()
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	spec, err := bpf.LoadJsprof()
	if err != nil {
		t.Fatal(err)
	}
	s := &sampled{}
	tool.Spec, tool.Objects = spec, &s.objects
	if tool.Variables == nil {
		tool.Variables = map[string]any{bpf.JsprofVarMaxElapsed: uint64(time.Second)}
	}
	if tool.Stack == nil {
		tool.Stack = func(uint64, Stack) {}
	}
	if o.Warn == nil {
		o.Warn = func(err error) { t.Errorf("warning = %v, want none", err) }
	}
	if s.Session, err = Open(t.Context(), o, tool); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// sample is a Loop's Attach that samples fast.
func (s *sampled) sample() error {
	_, err := s.Sample(s.objects.OnSample, loader.CPUClock, loader.Sampling{Hz: 499})
	return err
}

func busy(t *testing.T) *nodetest.Target {
	t.Helper()
	return nodetest.Start(t, nodetest.Node(t, anyVersion), nodetest.Options{Script: "purecpu.js", MayFail: true})
}

// TestSessionNamesTheStacksOfAProcess samples a process until enough stacks have come.
func TestSessionNamesTheStacksOfAProcess(t *testing.T) {
	target := busy(t)
	const enough = 5
	stacks := make(map[uint64]Stack)
	work := make(chan func(context.Context) error, 1)
	s := openSampled(t, Options{Selection: Selection{PIDs: []int{target.PID}}}, Tool{
		Poll: UsualPoll,
		Stack: func(hash uint64, stack Stack) {
			if _, known := stacks[hash]; known {
				return
			}
			stacks[hash] = stack
			if len(stacks) == enough {
				work <- func(context.Context) error { return ErrDone }
			}
		},
	})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	var order []string
	note := func(what string) { order = append(order, what) }
	err := s.Run(t.Context(), Loop{
		Attach: func() error {
			note("attach")
			if !s.Table.Has(target.PID) {
				t.Error("the process is not traced when programs are attached")
			}
			return s.sample()
		},
		Started: func() { note("started") },
		Work:    work,
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"attach", "started"}; !slices.Equal(order, want) {
		t.Errorf("calls = %q, want %q", order, want)
	}
	if err := errors.Join(s.Flush(), s.Missing()); err != nil {
		t.Fatal(err)
	}
	s.Diagnose()
	samples := s.samples(t)
	if samples < enough {
		t.Errorf("samples = %d, want %d or more", samples, enough)
	}
	javascript := 0
	for _, stack := range stacks {
		if stack.PID != target.PID {
			t.Errorf("stack of process %d, want %d", stack.PID, target.PID)
		}
		frames, _ := s.Table.Frames(stack)
		if slices.ContainsFunc(frames, func(f symbolize.Frame) bool { return f.Kind == symbolize.JS && strings.HasSuffix(f.File, "purecpu.js") }) {
			javascript++
		}
	}
	if javascript == 0 {
		t.Errorf("none of %d stacks has a JavaScript function of the program", len(stacks))
	}
	if again := s.samples(t); again != samples {
		t.Errorf("samples = %d, then %d: Run left the programs attached", samples, again)
	}
	checkIdentity(t, s.Table, target.PID)
}

func checkIdentity(t *testing.T, table *Table, pid int) {
	t.Helper()
	node, v8 := table.Versions()
	if node != "v"+anyVersion && node != anyVersion || v8 == "" {
		t.Errorf("versions = %q, %q, want %s and one of V8", node, v8, anyVersion)
	}
	all := table.Identities()
	if len(all) != 1 || all[0].PID != pid || all[0].Node != node || all[0].V8 != v8 || all[0].Title == "" {
		t.Errorf("identities = %+v, want one of process %d with %s", all, pid, node)
	}
}

// TestRunEnds ends Run in every way.
func TestRunEnds(t *testing.T) {
	failed := errors.New("failed")
	closed := make(chan struct{})
	close(closed)
	works := func(results ...error) <-chan func(context.Context) error {
		work := make(chan func(context.Context) error, len(results))
		for _, result := range results {
			work <- func(context.Context) error { return result }
		}
		return work
	}
	for _, tt := range []struct {
		name string
		o    Options
		loop Loop
		ends bool // the process ends
		want error
	}{
		{name: "when its duration is over", o: Options{Duration: time.Millisecond}},
		{name: "when it is stopped", loop: Loop{Stop: closed}},
		{name: "when the work is done", loop: Loop{Work: works(nil, nil, ErrDone, failed)}},
		{name: "when the work fails", loop: Loop{Work: works(nil, failed)}, want: failed},
		{name: "when a report fails", loop: Loop{Interval: time.Millisecond, Report: func() error { return failed }}, want: failed},
		{name: "when the program cannot be attached", loop: Loop{Attach: func() error { return failed }}, want: failed},
		{name: "when the process ends", ends: true},
		{name: "when the process ends, with what is left", ends: true, loop: Loop{Last: func(context.Context) error { return failed }}, want: failed},
		{name: "when the process ends, with nothing left", ends: true, loop: Loop{Last: func(context.Context) error { return ErrDone }}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			target := busy(t)
			tt.o.PIDs = []int{target.PID}
			s := openSampled(t, tt.o, Tool{})
			if err := s.Listen(); err != nil {
				t.Fatal(err)
			}
			if tt.ends {
				tt.loop.Started = target.Stop
			}
			if err := s.Run(t.Context(), tt.loop); !errors.Is(err, tt.want) || tt.want == nil && err != nil {
				t.Errorf("err = %v, want %v", err, tt.want)
			}
			if err := s.Missing(); err != nil {
				t.Errorf("missing = %v, want nil", err)
			}
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	target := busy(t)
	s := openSampled(t, Options{Selection: Selection{PIDs: []int{target.PID}}}, Tool{})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ticks := 0
	err := s.Run(ctx, Loop{FirstTick: time.Millisecond, Tick: func() time.Duration {
		if ticks++; ticks == 3 {
			cancel()
		}
		return time.Millisecond
	}})
	if err != nil || ticks < 3 {
		t.Errorf("%d ticks, err = %v, want 3 or more and nil", ticks, err)
	}
	select {
	case <-s.Gone():
		t.Error("the process runs, but is gone")
	default:
	}
}

// TestToolDecidesWhichProcessIsTraced rejects one, and hears of the end of the other.
func TestToolDecidesWhichProcessIsTraced(t *testing.T) {
	rejected := errors.New("not this one")
	target := busy(t)
	s := openSampled(t, Options{Selection: Selection{PIDs: []int{target.PID}}}, Tool{Added: func(int) error { return rejected }})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), Loop{}); !errors.Is(err, rejected) {
		t.Errorf("err = %v, want %v", err, rejected)
	}
	if s.Table.Has(target.PID) {
		t.Error("the rejected process is traced")
	}
	if err := s.Missing(); !errors.Is(err, ErrNotFound) {
		t.Errorf("missing = %v, want %v", err, ErrNotFound)
	}

	var added, ended atomic.Int64
	s = openSampled(t, Options{Selection: Selection{PIDs: []int{target.PID}}}, Tool{
		Added: func(pid int) error { added.Store(int64(pid)); return nil },
		Ended: func(pid int) { ended.Store(int64(pid)) },
	})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), Loop{Started: target.Stop}); err != nil {
		t.Fatal(err)
	}
	if got := [2]int{int(added.Load()), int(ended.Load())}; got != [2]int{target.PID, target.PID} {
		t.Errorf("added and ended = %v, want %d both", got, target.PID)
	}
	if s.Table.Has(target.PID) {
		t.Error("the ended process is traced")
	}
}

func TestOpenRefusesAToolThatDoesNotFit(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	load := func() *ebpf.CollectionSpec {
		spec, err := bpf.LoadJsprof()
		if err != nil {
			t.Fatal(err)
		}
		return spec
	}
	var objects bpf.JsprofObjects
	for _, tt := range []struct {
		name string
		tool Tool
		want string
	}{
		{"a variable that it lacks", Tool{Spec: load(), Objects: &objects, Variables: map[string]any{"color": uint32(1)}}, "configure BPF programs: no variable color"},
		{"a variable of another size", Tool{Spec: load(), Objects: &objects, Variables: map[string]any{bpf.JsprofVarWithKernel: uint64(1)}}, "configure BPF programs: "},
		{"objects without maps", Tool{Spec: load(), Objects: &bare{}}, "the tool's BPF programs have no processes"},
		{"objects of another type", Tool{Spec: load(), Objects: &wrong{}}, "assign BPF programs: "},
	} {
		s, err := Open(t.Context(), Options{Selection: Selection{PIDs: []int{1}}}, tt.tool)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: err = %v, want %q", tt.name, err, tt.want)
		}
		if s != nil {
			t.Errorf("%s: a session was opened", tt.name)
		}
	}
}

// bare has one program and nothing that a session needs.
type bare struct {
	OnSample *ebpf.Program `ebpf:"on_sample"`
}

func (b *bare) Close() error { return b.OnSample.Close() }

type wrong struct {
	OnSample *ebpf.Map `ebpf:"on_sample"`
}

func (w *wrong) Close() error { return nil }

// TestCloseUndoesInReverseOrder has everything fail, and all of it undone all the same.
func TestCloseUndoesInReverseOrder(t *testing.T) {
	var order []string
	undoing := func(what string) func() error {
		return func() error {
			order = append(order, what)
			return errors.New(what)
		}
	}
	s := &Session{}
	s.Defer(undoing("first"))
	s.Defer(undoing("second"))
	s.attached = append(s.attached, undoing("attached"), undoing("attached later"))
	err := s.Close()
	want := []string{"attached later", "attached", "second", "first"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if got := err.Error(); got != strings.Join(want, "\n") {
		t.Errorf("err = %q, want all of %q", got, want)
	}
	if err := s.Close(); err != nil || len(order) != len(want) {
		t.Errorf("second close: %v, %d calls, want none", err, len(order)-len(want))
	}
	failed := errors.New("failed")
	if err := s.Attach(nil, failed); !errors.Is(err, failed) || len(s.attached) > 0 {
		t.Errorf("attach = %v with %d links, want %v and none", err, len(s.attached), failed)
	}
}

// TestDiagnosticsAreReportedOnce has the same diagnostic twice.
func TestDiagnosticsAreReportedOnce(t *testing.T) {
	var got []string
	s := &Session{Table: NewTable(Maps{}), o: Options{Warn: func(err error) { got = append(got, err.Error()) }}}
	for range 2 {
		s.Table.Warn(errors.New("a"))
		s.Table.Warn(errors.New("b"))
		s.warnOfNew()
	}
	if want := []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("warnings = %q, want %q", got, want)
	}
	s.o.Warn = nil
	s.Warn(errors.New("to nobody"))
}

// samples returns how many samples the kernel has taken.
func (s *sampled) samples(t *testing.T) uint64 {
	t.Helper()
	var matched [bpf.TraceProfileLimitMAX_EVENTS]uint64
	if err := s.objects.Matched.Get(&matched); err != nil {
		t.Fatal(err)
	}
	return matched[0]
}
