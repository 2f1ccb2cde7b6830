package jsprof

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// lineVersions are the versions that executing lines are tested on.
func lineVersions() []string {
	if matrix() {
		return nodetest.Versions
	}
	return []string{"18.20.8", "24.21.0", "26.10.0"}
}

// linesTruth is what lines.js says of itself: the stacks below unit, leaf first.
type linesTruth struct {
	Stacks []struct {
		Calls []nodetest.Call
		Units int // of ten
	}
	Tier string   // of the function that inlines the others
	Tiny []string // tiers of those, where they are not inlined
}

// TestInlinedFunctionsAreOnTheStack has functions that TurboFan and Maglev inlined one
// to four deep: all are on the stack with the line of their call, inlined ones without
// code of their own, and their shares are the program's.
func TestInlinedFunctionsAreOnTheStack(t *testing.T) {
	nodetest.Root(t)
	for _, version := range lineVersions() {
		for _, tier := range []symbolize.Tier{symbolize.Maglev, symbolize.Turbofan} {
			flags, ok := inliningFlags(version, tier)
			if !ok {
				continue
			}
			for depth := 1; depth <= 4; depth++ {
				t.Run(fmt.Sprintf("node%d/%s/%d", nodetest.Major(version), tier, depth), func(t *testing.T) {
					l := startLines(t, version, flags, "inlined", "--tier="+tier.String(), fmt.Sprintf("--depth=%d", depth))
					if l.truth.Tier != tier.String() {
						t.Fatalf("spin's code is %s's, want %s's", l.truth.Tier, tier)
					}
					if slices.ContainsFunc(l.truth.Tiny, func(tier string) bool { return tier != "interpreted" }) {
						t.Fatalf("tiers of inlined functions = %q: they run outside of spin", l.truth.Tiny)
					}
					l.sample(t, wantSamples)
					for l.all < enoughSamples && len(l.wrongShares()) > 0 {
						l.sample(t, wantSamples)
					}
					l.checkLines(t)
					for _, wrong := range l.wrongShares() {
						t.Errorf("of %d samples, %s", l.all, wrong)
					}
					l.checkInlined(t, tier, depth)
				})
			}
		}
	}
}

// inliningFlags has TierFlags's effect without keeping functions from being inlined.
func inliningFlags(version string, tier symbolize.Tier) ([]string, bool) {
	major := nodetest.Major(version)
	flags := []string{"--allow-natives-syntax", "--no-use-osr", "--no-concurrent-recompilation", "--no-sparkplug"}
	switch {
	case tier == symbolize.Maglev:
		return append(flags, "--maglev", "--no-opt"), major >= 24
	case major >= 20:
		flags = append(flags, "--no-maglev")
	}
	return flags, true
}

// TestExecutingLines has loops that are compiled while they run, and a script with a
// huge line; testNested checks the executing lines of all other sorts of functions.
func TestExecutingLines(t *testing.T) {
	nodetest.Root(t)
	for _, version := range lineVersions() {
		for _, form := range []string{"osr", "huge"} {
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), form), func(t *testing.T) {
				l := startLines(t, version, []string{"--allow-natives-syntax"}, form)
				l.sample(t, 400)
				l.checkLines(t)
				if form == "osr" {
					l.checkEntered(t)
				}
			})
		}
	}
}

// A lineRun has the profiles of a process that runs lines.js.
type lineRun struct {
	*nodetest.Target
	truth  linesTruth
	stacks []profile.Stack
	all    uint64 // samples
}

func startLines(t *testing.T, version string, flags []string, args ...string) *lineRun {
	t.Helper()
	nodetest.NothingLeft(t, programs...)
	l := &lineRun{Target: nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Flags: flags, Script: "lines.js", Args: args})}
	l.Facts(&l.truth)
	return l
}

func (l *lineRun) sample(t *testing.T, samples uint64) {
	t.Helper()
	p := profileUntil(t, Options{Selection: trace.Selection{PIDs: []int{l.PID}}, Hz: 499, Duration: time.Minute}, samples)
	if n := p.Failures["positions"]; n != 0 {
		t.Errorf("positions that could not be read = %d, want none", n)
	}
	l.stacks = append(l.stacks, p.Stacks...)
	for _, s := range p.Stacks {
		l.all += s.Value
	}
}

// below returns the frames of lines.js's scripts that called unit, leaf first.
func below(frames []symbolize.Frame) (calls []symbolize.Frame, ok bool) {
	at := slices.IndexFunc(frames, func(f symbolize.Frame) bool { return f.Kind == symbolize.JS && f.Name == "unit" })
	if at < 0 {
		return nil, false
	}
	for _, f := range frames[at:] {
		if strings.HasPrefix(f.File, "/lines/") {
			calls = append(calls, f)
		}
	}
	return calls, true
}

// known returns which of the program's stacks the frames are, -1 if none.
func (l *lineRun) known(frames []symbolize.Frame) int {
	for i, s := range l.truth.Stacks {
		if slices.EqualFunc(s.Calls, frames, func(c nodetest.Call, f symbolize.Frame) bool {
			return c.Function == f.Name && c.File == f.File && c.Line == f.ExecutingLine && c.Column == f.ExecutingColumn
		}) {
			return i
		}
	}
	return -1
}

// checkLines checks that each stack is one that the program recorded, lines included.
func (l *lineRun) checkLines(t *testing.T) {
	t.Helper()
	var right, wrong uint64
	for _, s := range l.stacks {
		frames, ok := below(s.Frames)
		switch {
		case !ok:
		case l.known(frames) >= 0:
			right += s.Value
		default:
			if wrong += s.Value; wrong == s.Value {
				t.Errorf("%d samples have a stack that is none of the program's:\n%s", s.Value, executing(frames))
			}
		}
	}
	if wrong > 0 || right < 100 {
		t.Errorf("samples with right lines = %d, wrong = %d, want 100 or more, and none", right, wrong)
	}
}

// wrongShares describes the shares that differ from the program's.
func (l *lineRun) wrongShares() (wrong []string) {
	got, want := make(map[string]float64), make(map[string]float64) // by innermost function
	var all float64
	for _, s := range l.stacks {
		if frames, ok := below(s.Frames); ok && l.known(frames) >= 0 {
			got[frames[0].Name] += float64(s.Value)
			all += float64(s.Value)
		}
	}
	for _, s := range l.truth.Stacks {
		want[s.Calls[0].Function] += 10 * float64(s.Units)
	}
	for name, want := range want {
		if got := 100 * got[name] / max(all, 1); math.Abs(got-want) > tolerance {
			wrong = append(wrong, fmt.Sprintf("share of %s = %.1f %%, want %.0f %% ± %d", name, got, want, tolerance))
		}
	}
	return wrong
}

// checkInlined checks that the frames of tiny functions are marked as inlined in spin.
func (l *lineRun) checkInlined(t *testing.T, tier symbolize.Tier, depth int) {
	t.Helper()
	for _, s := range l.stacks {
		frames, _ := below(s.Frames)
		for i, f := range frames {
			if f.Inlined != (i < depth) || f.Tier != tier {
				t.Fatalf("frame %d of a stack that is inlined %d deep is %v's, inlined = %v:\n%s", i, depth, f.Tier, f.Inlined, executing(frames))
			}
		}
	}
}

// checkEntered checks that the loop was left for compiled code, which the function
// does not refer to.
func (l *lineRun) checkEntered(t *testing.T) {
	t.Helper()
	tiers := make(map[symbolize.Tier]uint64)
	for _, s := range l.stacks {
		if frames, _ := below(s.Frames); len(frames) > 0 {
			tiers[frames[0].Tier] += s.Value
		}
	}
	if slow := tiers[symbolize.Interpreted] + tiers[symbolize.Baseline]; slow > 200 {
		t.Errorf("samples by tier = %v: the loop was not compiled while it ran", tiers)
	}
}

func executing(frames []symbolize.Frame) string {
	var b strings.Builder
	for _, f := range frames {
		fmt.Fprintf(&b, "  %v %s %s:%d:%d at %d:%d, inlined %v\n", f.Tier, f.Name, f.File, f.Line, f.Column, f.ExecutingLine, f.ExecutingColumn, f.Inlined)
	}
	return b.String()
}

// stresses returns flags that have V8 collect, or compile and deoptimize, often.
func stresses(version string) map[string][]string {
	compile := []string{"--invocation-count-for-maglev=20", "--invocation-count-for-turbofan=60", "--minimum-invocations-after-ic-update=5"}
	if nodetest.Major(version) < 24 {
		compile = []string{"--interrupt-budget=2000"}
	}
	return map[string][]string{
		"collections":  {"--max-semi-space-size=1", "--gc-interval=500"},
		"compilations": append(compile, "--max-semi-space-size=1"),
	}
}

// TestLinesAreOfTheirFunction profiles a program that makes functions anew all the
// time, while V8 collects and compiles: function f<g>_<i> has the ten lines from
// 10*i+1, and calls the next on the sixth.
func TestLinesAreOfTheirFunction(t *testing.T) {
	nodetest.Root(t)
	for _, version := range lineVersions() {
		for name, flags := range stresses(version) {
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), name), func(t *testing.T) {
				nodetest.NothingLeft(t, programs...)
				target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Flags: flags, Script: "ranges.js"})
				p := profileUntil(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Duration: time.Minute, Hz: 997}, 4000)
				checkRanges(t, p)
			})
		}
	}
}

func checkRanges(t *testing.T, p *profile.Profile) {
	t.Helper()
	var right, wrong, unknown, inlined uint64
	without := make(map[string]uint64)
	for _, s := range p.Stacks {
		callee := ""
		for _, f := range s.Frames {
			var g, i int
			if n, _ := fmt.Sscanf(f.Name, "f%d_%d", &g, &i); n != 2 || f.Kind != symbolize.JS {
				continue
			}
			at := f.ExecutingLine - 10*i
			calls := callee == fmt.Sprintf("f%d_%d", g, i+1)
			switch {
			case f.ExecutingLine == 0:
				unknown += s.Value
				without[fmt.Sprintf("%v, leaf %t", f.Tier, callee == "")] += s.Value
			case at < 1 || at > 10 || calls && at != 6:
				if wrong += s.Value; wrong == s.Value {
					t.Errorf("%s runs line %d of its ten lines, and calls %s:\n%s", f.Name, at, callee, executing(s.Frames))
				}
			default:
				right += s.Value
			}
			if f.Inlined {
				inlined += s.Value
			}
			callee = f.Name
		}
	}
	t.Logf("frames with right lines = %d, without = %v; inlined = %d; failures = %v", right, without, inlined, p.Failures)
	const mostUnknown = 3 // percent
	if wrong > 0 || right < 1000 || 100*unknown > mostUnknown*(right+unknown) {
		t.Errorf("frames with right lines = %d, wrong = %d, without = %d, want 1000 or more, none, %d %% at most", right, wrong, unknown, mostUnknown)
	}
}
