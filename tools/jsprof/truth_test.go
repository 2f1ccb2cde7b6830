package jsprof

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// programs are the BPF programs that must not be left behind.
var programs = []string{"on_sample", "on_exec"}

// takeProfile runs jsprof for a while and fails the test if anything goes wrong.
func takeProfile(t *testing.T, o Options) *profile.Profile {
	t.Helper()
	return profileUntil(t, o, math.MaxUint64)
}

// profileUntil runs jsprof until it has that many samples, or as long as o says.
func profileUntil(t *testing.T, o Options, samples uint64) *profile.Profile {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if o.Warn == nil {
		o.Warn = func(err error) { t.Errorf("warning: %v", err) }
	}
	next := o.Sampled
	o.Sampled = func(count uint64) {
		if next != nil {
			next(count)
		}
		if count >= samples {
			cancel()
		}
	}
	p, err := Run(ctx, o)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	if p.Lost != 0 {
		t.Errorf("lost = %d samples, want 0", p.Lost)
	}
	return p
}

// profileVersions runs a program on every version at the same time, for an average of
// each samples per version.
func profileVersions(t *testing.T, program string, each int) (*profile.Profile, []*nodetest.Target) {
	t.Helper()
	nodetest.NothingLeft(t, programs...)
	var targets []*nodetest.Target
	var pids []int
	for _, version := range nodetest.Versions {
		target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: program})
		targets, pids = append(targets, target), append(pids, target.PID)
	}
	p := profileUntil(t, Options{Selection: trace.Selection{PIDs: pids}, Hz: 997, Duration: 3 * time.Minute}, uint64(each*len(pids)))
	return p, targets
}

// A call is a frame as tests compare it.
type call struct {
	Name, File   string
	Line, Column int
}

// javascript returns the JavaScript frames of a stack, leaf first. V8's own functions
// are left out: V8 lists only some of them, and those that jump to the next function
// have no frame.
func javascript(frames []symbolize.Frame) []call {
	var calls []call
	for _, f := range frames {
		if f.Kind == symbolize.JS {
			calls = append(calls, call{f.Name, f.File, f.Line, f.Column})
		}
	}
	return calls
}

// expected returns the stack trace that the program itself prints, with the names
// from got where the naming rule allows them: a function without a name of its own
// may have one that V8 inferred from the source.
func expected(calls []nodetest.Call, got []call) []call {
	var want []call
	for _, c := range calls {
		if c.Builtin || c.Definition == nil {
			continue
		}
		w := call{Name: c.Function, File: c.File, Line: c.Definition.Line, Column: c.Definition.Column}
		if c.Eval {
			w.File = ""
		}
		at := len(want)
		if w.Name == "" || c.Eval {
			w.Name = "(anonymous)"
			if at < len(got) && c.Definition.Name == got[at].Name {
				w.Name = got[at].Name
			}
		}
		want = append(want, w)
	}
	return want
}

// TestStackEqualsErrorStack compares sampled stacks of nested known functions with the
// program's own new Error().stack.
func TestStackEqualsErrorStack(t *testing.T) {
	nodetest.Root(t)
	for i, version := range nodetest.Versions {
		for _, tier := range tiersOf(i) {
			flags, _ := nodetest.TierFlags(version, tier)
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), tier), func(t *testing.T) {
				testNested(t, nodetest.Node(t, version), tier, flags, nil)
			})
		}
	}
}

// tiersOf returns the tiers of the version of that index that are tested: of the oldest and the newest all,
// of each between one in turn; or all under USTACK_MATRIX=1.
func tiersOf(i int) []symbolize.Tier {
	all := slices.DeleteFunc(slices.Clone(nodetest.Tiers), func(tier symbolize.Tier) bool {
		_, ok := nodetest.TierFlags(nodetest.Versions[i], tier)
		return !ok
	})
	if i == 0 || i == len(nodetest.Versions)-1 || os.Getenv("USTACK_MATRIX") == "1" {
		return all
	}
	at := i % len(all)
	return all[at : at+1]
}

// testNested profiles a program that spins in one nested function after another. Warnings go
// to warn, or fail the test if it is nil.
func testNested(t *testing.T, node string, tier symbolize.Tier, flags []string, warn func(error)) {
	nodetest.NothingLeft(t, programs...)
	const (
		hz           = 599
		milliseconds = 60 // for each scenario: 36 samples
		enough       = 10 // samples, where chance or another program takes some
	)
	target := nodetest.Start(t, node, nodetest.Options{
		Flags: flags, Script: "nested.js",
		Args: []string{"--each", "--on-signal", fmt.Sprintf("--ms=%d", milliseconds), "--tier=" + tier.String()},
	})
	p := takeProfile(t, Options{
		Selection: trace.Selection{PIDs: []int{target.PID}}, Hz: hz, Duration: 3 * time.Minute,
		Started: func(int) { target.Signal(syscall.SIGUSR2) }, Warn: warn,
	})
	target.Wait()
	sightings, all := leaves(p, target.PID)
	for line := range target.Lines() {
		var truth nodetest.Nested
		if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "ready")), &truth); err != nil {
			t.Fatalf("decode %q: %v", line, err)
		}
		t.Run(truth.Scenario, func(t *testing.T) {
			calls := truth.Physical()
			count, stack := take(sightings, calls)
			if count < enough {
				t.Fatalf("stack seen in %d samples, want %d or more of\n%v", count, enough, expected(calls, nil))
			}
			checkExecuting(t, calls, stack.Frames)
			if leaf := stack.Frames[slices.IndexFunc(stack.Frames, isJS)]; leaf.Tier != tier {
				t.Errorf("tier of %s = %v, want %v", leaf.Name, leaf.Tier, tier)
			}
		})
	}
	var others uint64
	for _, s := range sightings {
		others += s.count
	}
	if others > all/100 {
		t.Errorf("stacks of leaf that are none of the program's: %d of %d samples", others, all)
		for _, s := range sightings {
			t.Logf("%d samples:\n%s", s.count, text(s.stack.Frames))
		}
	}
}

// A sighting is a JavaScript stack in a profile: its samples, and the most frequent stack that
// has it.
type sighting struct {
	calls []call
	count uint64
	stack profile.Stack
}

// leaves returns the stacks of a main thread whose innermost JavaScript function is leaf, by
// their functions, and the number of their samples.
func leaves(p *profile.Profile, pid int) (all map[string]*sighting, count uint64) {
	all = make(map[string]*sighting)
	for _, s := range p.Stacks {
		calls := javascript(s.Frames)
		if s.TID != pid || len(calls) == 0 || calls[0].Name != "leaf" {
			continue
		}
		key := fmt.Sprint(calls)
		if all[key] == nil {
			all[key] = &sighting{calls: calls}
		}
		of := all[key]
		of.count += s.Value
		count += s.Value
		if s.Value > of.stack.Value {
			of.stack = s
		}
	}
	return all, count
}

// take removes from all the stacks that a program says it has, and returns their number of
// samples and the most frequent one.
func take(all map[string]*sighting, calls []nodetest.Call) (count uint64, stack profile.Stack) {
	for key, s := range all {
		if !slices.Equal(expected(calls, s.calls), s.calls) {
			continue
		}
		count += s.count
		if s.stack.Value > stack.Value {
			stack = s.stack
		}
		delete(all, key)
	}
	return count, stack
}

// checkExecuting compares the executing lines of a stack with those of the calls that
// the program recorded. The leaf has gone on since, within its function.
func checkExecuting(t *testing.T, calls []nodetest.Call, frames []symbolize.Frame) {
	t.Helper()
	at := 0
	for _, c := range calls {
		if c.Builtin || c.Definition == nil {
			continue
		}
		for at < len(frames) && frames[at].Kind != symbolize.JS {
			at++
		}
		if at == len(frames) {
			return
		}
		f := frames[at]
		if c.Function == "leaf" {
			const lines = 12
			if f.ExecutingLine < c.Definition.Line || f.ExecutingLine > c.Definition.Line+lines {
				t.Errorf("leaf runs line %d, want one of the %d from %d", f.ExecutingLine, lines, c.Definition.Line)
			}
		} else if f.ExecutingLine != c.Line || f.ExecutingColumn != c.Column {
			t.Errorf("%s of %s runs %d:%d, want %d:%d", f.Name, f.File, f.ExecutingLine, f.ExecutingColumn, c.Line, c.Column)
		}
		at++
	}
}

func isJS(f symbolize.Frame) bool { return f.Kind == symbolize.JS }
