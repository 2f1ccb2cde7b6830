package jsprof

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// scenarios are the ways in which nested.js comes to spin.
func scenarios(t *testing.T, node string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), node, nodetest.Program("nested.js"), "--list").Output()
	if err != nil {
		t.Fatalf("list scenarios: %v", err)
	}
	return strings.Fields(string(out))
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

// common returns the most frequent JavaScript stack of thread pid, one of the stacks
// that have it, its number of samples, and the number of all samples.
func common(p *profile.Profile, pid int) (calls []call, stack profile.Stack, count, all uint64) {
	counts := make(map[string]uint64)
	for _, s := range p.Stacks {
		if s.TID != pid {
			continue
		}
		all += s.Value
		key := fmt.Sprint(javascript(s.Frames))
		counts[key] += s.Value
		if counts[key] > count {
			calls, stack, count = javascript(s.Frames), s, counts[key]
		}
	}
	return calls, stack, count, all
}

// TestStackEqualsErrorStack stops programs in nested known functions and compares the
// sampled stack with the program's own new Error().stack.
func TestStackEqualsErrorStack(t *testing.T) {
	nodetest.Root(t)
	for _, version := range nodetest.Versions {
		for _, tier := range nodetest.Tiers {
			flags, ok := nodetest.TierFlags(version, tier)
			if !ok {
				continue
			}
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), tier), func(t *testing.T) {
				testNested(t, nodetest.Node(t, version), tier, flags, nil)
			})
		}
	}
}

// TestPlainStackEqualsErrorStack does so for one program, which machines that are emulated
// can run.
func TestPlainStackEqualsErrorStack(t *testing.T) {
	nodetest.Root(t)
	const version = "22.23.3"
	for _, tier := range []symbolize.Tier{symbolize.Interpreted, symbolize.Turbofan} {
		t.Run(tier.String(), func(t *testing.T) {
			flags, _ := nodetest.TierFlags(version, tier)
			testScenarios(t, nodetest.Node(t, version), []string{"plain"}, tier, flags, nil)
		})
	}
}

func testNested(t *testing.T, node string, tier symbolize.Tier, flags []string, warn func(error)) {
	testScenarios(t, node, scenarios(t, node), tier, flags, warn)
}

func testScenarios(t *testing.T, node string, scenarios []string, tier symbolize.Tier, flags []string, warn func(error)) {
	nodetest.NothingLeft(t, programs...)
	truths := make(map[int]nodetest.Nested)
	var targets []*nodetest.Target
	var pids []int
	for _, scenario := range scenarios {
		target := nodetest.Start(t, node, nodetest.Options{
			Flags: flags, Script: "nested.js", Args: []string{scenario, "--tier=" + tier.String()},
		})
		var truth nodetest.Nested
		target.Facts(&truth)
		target.Signal(syscall.SIGSTOP) // until all have started, so that they do not compete for the CPUs
		truths[target.PID] = truth
		pids = append(pids, target.PID)
		targets = append(targets, target)
	}
	cont := func(int) {
		for _, target := range targets {
			target.Signal(syscall.SIGCONT)
		}
	}
	const each = 20 // samples per process, on average
	p := profileUntil(t, Options{Selection: trace.Selection{PIDs: pids}, Hz: 299, Duration: time.Minute, Started: cont, Warn: warn}, uint64(each*len(pids)))
	for pid, truth := range truths {
		t.Run(truth.Scenario, func(t *testing.T) {
			got, stack, count, samples := common(p, pid)
			if samples < 5 || count < samples*9/10 {
				t.Errorf("stack seen in %d of %d samples, want nine tenths of 5 or more", count, samples)
			}
			want := expected(truth.Physical(), got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("stack (-want +got):\n%s", diff)
			}
			if len(got) == 0 {
				return
			}
			checkExecuting(t, truth.Physical(), stack.Frames)
			if leaf := stack.Frames[slices.IndexFunc(stack.Frames, isJS)]; leaf.Tier != tier {
				t.Errorf("tier of %s = %v, want %v", leaf.Name, leaf.Tier, tier)
			}
		})
	}
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
