package jsprof

import (
	"fmt"
	"math"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// wasmForms are the ways in which wasm.js creates and calls its modules.
var wasmForms = []string{
	"named", "nameless", "unnamed", "modules", "calls", "imports", "compiled", "streamed", "big", "driver", "workers",
}

// wasmVersions are the versions that the short form tests: one whose frames hold
// the instance itself, and one whose wrappers are builtins.
var wasmVersions = []string{"18.20.8", "24.21.0"}

// wasmCases calls test with each version and the forms to test it with: all of them
// in the matrix, otherwise some for each version.
func wasmCases(t *testing.T, test func(t *testing.T, version string, forms []string)) {
	versions := wasmVersions
	if matrix() {
		versions = nodetest.Versions
	}
	for i, version := range versions {
		forms := wasmForms
		if !matrix() {
			forms = [][]string{{"unnamed", "calls", "driver"}, {"modules", "imports", "big", "workers"}}[i]
		}
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) { test(t, version, forms) })
	}
}

// A wasmShare is what wasm.js reports about a function.
type wasmShare struct {
	Name    string  `json:"name"`
	File    string  `json:"file"`
	Percent float64 `json:"percent"`
}

// TestWasmSharesAreTrue profiles programs that spend known shares of their CPU
// time in WebAssembly functions.
func TestWasmSharesAreTrue(t *testing.T) {
	nodetest.Root(t)
	wasmCases(t, func(t *testing.T, version string, forms []string) {
		nodetest.NothingLeft(t, programs...)
		targets := map[string]*nodetest.Target{}
		var pids []int
		for _, form := range forms {
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "wasm.js", Args: []string{form}})
			target.Signal(syscall.SIGSTOP) // until all have started
			targets[form], pids = target, append(pids, target.PID)
		}
		cont := func(int) {
			for _, target := range targets {
				target.Signal(syscall.SIGCONT)
			}
		}
		counts := make(map[string]*wasmCount)
		for form, target := range targets {
			c := &wasmCount{pid: target.PID}
			target.Facts(c)
			c.samples = make([]uint64, len(c.Functions))
			counts[form] = c
		}
		const each = 4000
		o := Options{Selection: trace.Selection{PIDs: pids}, Hz: 997, Duration: 5 * time.Minute, Started: cont}
		for range maxProfiles {
			p := profileUntil(t, o, uint64(each*len(pids)))
			lacks := false
			for _, c := range counts {
				c.add(p)
				lacks = lacks || c.all < wantSamples || c.all < enoughSamples && len(c.wrong()) > 0
			}
			if !lacks {
				break
			}
		}
		for form, c := range counts {
			t.Run(form, func(t *testing.T) {
				c.check(t)
				if form == "driver" && nodetest.Major(version) >= 20 {
					c.checkTier(t, "driver", symbolize.Liftoff)
				}
				// Two threads race to count the calls by which V8 decides that a function is hot, and
				// a thread that leaves its work to others never gets hot.
				free := form == "workers" || form == "calls" || form == "imports"
				if !free && (form != "driver" || nodetest.Major(version) >= 20) {
					c.checkTier(t, c.Functions[0].Name, symbolize.Turbofan)
				}
			})
		}
	})
}

// A wasmCount counts the samples of a process that runs wasm.js.
type wasmCount struct {
	Functions []wasmShare `json:"functions"`

	pid                  int
	samples              []uint64 // of each function
	all, other, nameless uint64
	stacks               []profile.Stack
}

// add counts the samples of a profile.
func (c *wasmCount) add(p *profile.Profile) {
	for _, s := range p.Stacks {
		if s.PID != c.pid {
			continue
		}
		c.stacks = append(c.stacks, s)
		if slices.ContainsFunc(s.Frames, func(f symbolize.Frame) bool { return f.Kind == symbolize.Wasm && f.Name == "wasm code" }) {
			c.nameless += s.Value
		}
		at := slices.IndexFunc(c.Functions, func(w wasmShare) bool {
			return slices.ContainsFunc(s.Frames, func(f symbolize.Frame) bool {
				return f.Kind == symbolize.Wasm && f.Name == w.Name && f.File == w.File
			})
		})
		if at < 0 {
			c.other += s.Value
			continue
		}
		c.samples[at] += s.Value
		c.all += s.Value
	}
}

// wrong describes the shares that are not the program's.
func (c *wasmCount) wrong() (wrong []string) {
	for i, f := range c.Functions {
		if got := 100 * float64(c.samples[i]) / float64(max(c.all, 1)); math.Abs(got-f.Percent) > tolerance {
			wrong = append(wrong, fmt.Sprintf("share of %s of %s = %.1f %%, want %.0f %% ± %d", f.Name, f.File, got, f.Percent, tolerance))
		}
	}
	return wrong
}

// check checks the shares of the functions, and fails if WebAssembly code has no name.
func (c *wasmCount) check(t *testing.T) {
	t.Helper()
	if c.all < wantSamples {
		t.Errorf("samples in the functions = %d, want %d or more (%d elsewhere)", c.all, wantSamples, c.other)
	}
	if c.nameless*100 > c.all {
		t.Errorf("samples with nameless WebAssembly code = %d of %d, want less than 1 %%", c.nameless, c.all)
	}
	for _, wrong := range c.wrong() {
		t.Errorf("of %d samples, %s", c.all, wrong)
	}
}

// checkTier fails unless nine tenths of the frames of a process's function are of
// that tier.
func (c *wasmCount) checkTier(t *testing.T, name string, tier symbolize.Tier) {
	t.Helper()
	counts := map[symbolize.Tier]uint64{}
	var all uint64
	for _, s := range c.stacks {
		for _, f := range s.Frames {
			if f.Kind == symbolize.Wasm && f.Name == name {
				counts[f.Tier] += s.Value
				all += s.Value
			}
		}
	}
	if counts[tier]*10 < all*9 || all == 0 {
		t.Errorf("tiers of %s = %v, want %v", name, counts, tier)
	}
}

// A wasmCall is a frame of a stack through WebAssembly and JavaScript.
type wasmCall struct {
	Name string `json:"name"`
	File string `json:"file"`
	Wasm bool   `json:"wasm"`
}

// TestWasmStackEqualsErrorStack compares a stack through several modules and
// JavaScript with new Error().stack.
func TestWasmStackEqualsErrorStack(t *testing.T) {
	nodetest.Root(t)
	wasmCases(t, func(t *testing.T, version string, _ []string) {
		nodetest.NothingLeft(t, programs...)
		target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "wasm.js", Args: []string{"nested"}})
		var truth struct {
			Frames []wasmCall `json:"frames"`
		}
		target.Facts(&truth)
		want := upToMain(truth.Frames)
		const samples = 100
		p := profileUntil(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Hz: 299, Duration: 2 * time.Minute}, samples)
		var right, all uint64
		for _, s := range p.Stacks {
			var got []wasmCall
			for _, f := range s.Frames {
				switch {
				case f.Kind == symbolize.Wasm && f.File != "", f.Kind == symbolize.JS:
					got = append(got, wasmCall{f.Name, f.File, f.Kind == symbolize.Wasm})
				}
			}
			if s.TID != target.PID {
				continue
			}
			all += s.Value
			if diff := cmp.Diff(want, upToMain(got)); diff == "" {
				right += s.Value
			} else if s.Value > samples/10 {
				t.Errorf("%d samples: stack (-want +got):\n%s", s.Value, diff)
			}
		}
		if right*10 < all*9 || right == 0 {
			t.Errorf("right stacks = %d of %d, want nine tenths", right, all)
		}
	})
}

// upToMain returns the calls up to wasm.js's function main, leaf first.
func upToMain(calls []wasmCall) []wasmCall {
	return calls[:slices.IndexFunc(calls, func(c wasmCall) bool { return c.Name == "main" })+1]
}
