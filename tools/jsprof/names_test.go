package jsprof

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// matrix reports whether to test every combination: that is for `make test-matrix`,
// not for each change.
func matrix() bool { return os.Getenv("USTACK_MATRIX") == "1" }

// TestAwkwardNames profiles functions whose names are hard to find.
func TestAwkwardNames(t *testing.T) {
	nodetest.Root(t)
	for _, version := range someVersions() {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
				Flags: nodetest.NoInlining(version), Script: "names.js",
			})
			var truth nodetest.Names
			target.Facts(&truth)
			if len(truth.Kinds) < 25 {
				t.Fatalf("kinds = %d, want 25 or more", len(truth.Kinds))
			}
			stacks := stacksOfKinds(t, target.PID, truth.Kinds)
			for _, kind := range truth.Kinds {
				t.Run(kind.Kind, func(t *testing.T) {
					var samples uint64
					for _, s := range stacks {
						samples += s.Value * checkName(t, kind, s.Frames)
					}
					if samples == 0 {
						t.Errorf("no sample of it")
					}
				})
			}
		})
	}
}

// stacksOfKinds profiles names.js until each kind is on a stack, with lines, for a few
// minutes at most: on a busy machine V8 may move a script whenever it is read.
func stacksOfKinds(t *testing.T, pid int, kinds []nodetest.Kind) []profile.Stack {
	t.Helper()
	missing := make(map[string]bool)
	for _, kind := range kinds {
		missing[kind.Wrapper] = true
	}
	var stacks []profile.Stack
	for deadline := time.Now().Add(3 * time.Minute); len(missing) > 0 && time.Now().Before(deadline); {
		p := takeProfile(t, Options{Selection: trace.Selection{PIDs: []int{pid}}, Duration: 5 * time.Second, Hz: 997})
		stacks = append(stacks, p.Stacks...)
		for _, s := range p.Stacks {
			if !slices.ContainsFunc(s.Frames, func(f symbolize.Frame) bool { return f.Name == "spin" }) {
				continue
			}
			for _, f := range s.Frames {
				if f.Line > 0 {
					delete(missing, f.Name)
				}
			}
		}
	}
	return stacks
}

// checkName checks the name of spin's caller if the stack is of that kind; it returns
// 1 if it is, else 0.
func checkName(t *testing.T, kind nodetest.Kind, frames []symbolize.Frame) uint64 {
	t.Helper()
	if !slices.ContainsFunc(frames, func(f symbolize.Frame) bool { return f.Name == kind.Wrapper }) {
		return 0
	}
	spin := slices.IndexFunc(frames, func(f symbolize.Frame) bool { return f.Name == "spin" })
	if spin < 0 || spin+1 == len(frames) {
		return 0
	}
	caller := frames[spin+1 : len(frames) : len(frames)]
	js := slices.IndexFunc(caller, func(f symbolize.Frame) bool { return f.Kind == symbolize.JS })
	got := caller[js]
	if got.Line == 0 {
		return 0 // its script was not read in that profile
	}
	want := []string{kind.DebugName}
	if kind.Kind == "name deleted" { // V8 then finds Function.prototype's, which is empty
		want = append(want, kind.SharedName)
	}
	if kind.DebugName == "" {
		want = append(want, "(anonymous)")
	}
	if len(kind.DebugName) > 400 && strings.HasSuffix(got.Name, "…") {
		want = append(want, got.Name) // truncated at the bound: only its beginning is compared
		if !strings.HasPrefix(kind.DebugName, strings.TrimSuffix(got.Name, "…")) {
			t.Errorf("name = %q, want a beginning of %q", got.Name, kind.DebugName)
		}
	}
	if !slices.Contains(want, got.Name) {
		t.Errorf("name = %q, want one of %q", got.Name, want)
	}
	if got.Line != kind.Line || got.Column != kind.Column {
		t.Errorf("defined at %d:%d, want %d:%d", got.Line, got.Column, kind.Line, kind.Column)
	}
	return 1
}

// TestStacksAreWhole counts the main thread's samples whose JavaScript part is
// complete and named, or that really are outside JavaScript.
func TestStacksAreWhole(t *testing.T) {
	nodetest.Root(t)
	for _, tt := range []struct {
		program string
		percent float64
	}{
		{"purecpu.js", 99},
		{"mixed.js", 97},
	} {
		t.Run(tt.program, func(t *testing.T) {
			p, targets := profileVersions(t, tt.program, 2000)
			for i, version := range nodetest.Versions {
				t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
					checkWhole(t, p, targets[i].PID, tt.percent)
				})
			}
		})
	}
}

// checkWhole fails unless that percentage of a main thread's stacks is complete.
func checkWhole(t *testing.T, p *profile.Profile, pid int, percent float64) {
	t.Helper()
	var all, whole uint64
	broken := make(map[string]uint64)
	for _, s := range p.Stacks {
		if s.TID != pid {
			continue
		}
		all += s.Value
		if isWhole(s.Frames) {
			whole += s.Value
		} else {
			broken[text(s.Frames)] += s.Value
		}
	}
	got := 100 * float64(whole) / float64(max(all, 1))
	t.Logf("%.2f %% of %d samples are whole", got, all)
	if all < 500 || got < percent {
		t.Errorf("whole = %.2f %% of %d samples, want %.0f %% of 500 or more", got, all, percent)
		for stack, count := range broken {
			t.Logf("%d samples:\n%s", count, stack)
		}
	}
}

// isWhole reports whether a stack reaches the start of the main thread and has no
// unnamed JavaScript frame. What a gap hides is native: unwinding resumes at V8's
// newest exit frame.
func isWhole(frames []symbolize.Frame) bool {
	for _, f := range frames {
		if f.Name == symbolize.Unknown && f.Module == "[jit]" {
			return false
		}
	}
	return slices.ContainsFunc(frames, func(f symbolize.Frame) bool { return f.Name == "node::Start" })
}
