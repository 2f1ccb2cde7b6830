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
		const each = 4000
		p := profileUntil(t, Options{Selection: trace.Selection{PIDs: pids}, Hz: 997, Duration: 5 * time.Minute, Started: cont}, uint64(each*len(pids)))
		for form, target := range targets {
			t.Run(form, func(t *testing.T) {
				var truth struct {
					Functions []wasmShare `json:"functions"`
				}
				target.Facts(&truth)
				checkWasm(t, p, target.PID, truth.Functions)
				if form == "driver" && nodetest.Major(version) >= 20 {
					checkTier(t, p, target.PID, "driver", symbolize.Liftoff)
				}
				// Two threads race to count the calls by which V8 decides that a function is hot, and
				// a thread that leaves its work to others never gets hot.
				free := form == "workers" || form == "calls" || form == "imports"
				if !free && (form != "driver" || nodetest.Major(version) >= 20) {
					checkTier(t, p, target.PID, truth.Functions[0].Name, symbolize.Turbofan)
				}
			})
		}
	})
}

// checkWasm checks the shares of a process's functions, and fails if WebAssembly code
// has no name.
func checkWasm(t *testing.T, p *profile.Profile, pid int, functions []wasmShare) {
	t.Helper()
	counts := make([]uint64, len(functions))
	var all, other, nameless uint64
	for _, s := range p.Stacks {
		if s.PID != pid {
			continue
		}
		if slices.ContainsFunc(s.Frames, func(f symbolize.Frame) bool { return f.Kind == symbolize.Wasm && f.Name == "wasm code" }) {
			nameless += s.Value
		}
		at := slices.IndexFunc(functions, func(w wasmShare) bool {
			return slices.ContainsFunc(s.Frames, func(f symbolize.Frame) bool {
				return f.Kind == symbolize.Wasm && f.Name == w.Name && f.File == w.File
			})
		})
		if at < 0 {
			other += s.Value
			continue
		}
		counts[at] += s.Value
		all += s.Value
	}
	if all < wantSamples {
		t.Errorf("samples in the functions = %d, want %d or more (%d elsewhere)", all, wantSamples, other)
	}
	if nameless*100 > all {
		t.Errorf("samples with nameless WebAssembly code = %d of %d, want less than 1 %%", nameless, all)
	}
	for i, f := range functions {
		got := 100 * float64(counts[i]) / float64(max(all, 1))
		t.Logf("%-18s %-32s %5.1f %% of %d, want %.0f %%", f.Name, f.File, got, all, f.Percent)
		if math.Abs(got-f.Percent) > tolerance {
			t.Errorf("share of %s = %.1f %%, want %.0f %% ± %d", f.Name, got, f.Percent, tolerance)
		}
	}
}

// checkTier fails unless nine tenths of the frames of a process's function are of
// that tier.
func checkTier(t *testing.T, p *profile.Profile, pid int, name string, tier symbolize.Tier) {
	t.Helper()
	counts := map[symbolize.Tier]uint64{}
	var all uint64
	for _, s := range p.Stacks {
		for _, f := range s.Frames {
			if s.PID == pid && f.Kind == symbolize.Wasm && f.Name == name {
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
