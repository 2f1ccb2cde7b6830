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

// someVersions are the versions that longer tests run on for each change: the matrix has
// them run on all.
func someVersions() []string {
	if matrix() {
		return nodetest.Versions
	}
	return []string{"18.20.8", "26.10.0"}
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
	for _, version := range someVersions() {
		for _, tier := range []symbolize.Tier{symbolize.Maglev, symbolize.Turbofan} {
			flags, ok := inliningFlags(version, tier)
			if !ok {
				continue
			}
			for _, depth := range inlinedDepths() {
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

// inlinedDepths is how deep functions are inlined: the first and the last by default.
func inlinedDepths() []int {
	if matrix() {
		return []int{1, 2, 3, 4}
	}
	return []int{1, 4}
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

// TestExecutingLines has loops that are compiled while they run, by Maglev alone, too, and
// a script with a huge line; testNested checks the executing lines of all other sorts of
// functions.
func TestExecutingLines(t *testing.T) {
	nodetest.Root(t)
	for _, version := range someVersions() {
		for _, arguments := range []string{"osr", "osr --no-opt", "huge"} {
			form, flag, maglev := strings.Cut(arguments, " ")
			if maglev && nodetest.Major(version) < 24 {
				continue
			}
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), arguments), func(t *testing.T) {
				l := startLines(t, version, append([]string{"--allow-natives-syntax"}, strings.Fields(flag)...), form)
				l.sample(t, 400)
				for rounds := 1; form == "osr" && !l.entered(); rounds++ {
					if rounds == 10 {
						t.Fatal("the loop was not compiled while it ran")
					}
					l.sample(t, 400)
				}
				l.checkLines(t)
			})
		}
	}
}

// TestOnlyOptimizedCodeInlines has loops that are entered in the middle from Sparkplug's
// code, whose frame they keep: their tier is the code's.
func TestOnlyOptimizedCodeInlines(t *testing.T) {
	nodetest.Root(t)
	for _, version := range someVersions() {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "charged.js", Args: []string{"inlined"}})
			p := profileUntil(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Hz: 499, Duration: time.Minute}, 500)
			tiers := make(map[symbolize.Tier]uint64)
			for _, s := range p.Stacks {
				if s.Frames[0].Inlined {
					tiers[s.Frames[0].Tier] += s.Value
				}
			}
			if optimized := tiers[symbolize.Maglev] + tiers[symbolize.Turbofan]; optimized < 300 || len(tiers) > 2 || tiers[symbolize.Baseline] > 0 {
				t.Errorf("samples in inlined functions by tier = %v, want 300 or more, of Maglev or TurboFan", tiers)
			}
		})
	}
}

// TestHotLineHasTheSamples has a function of which one line does nearly all the work,
// without a call: V8 writes down no position there.
func TestHotLineHasTheSamples(t *testing.T) {
	nodetest.Root(t)
	for _, version := range someVersions() {
		for _, tier := range nodetest.Tiers {
			flags, ok := nodetest.TierFlags(version, tier)
			if !ok {
				continue
			}
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), tier), func(t *testing.T) {
				nodetest.NothingLeft(t, programs...)
				target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
					Flags: flags, Script: "lines.js", Args: []string{"hot", "--tier=" + tier.String()},
				})
				var truth struct {
					Line int
					Tier string
				}
				target.Facts(&truth)
				p := profileUntil(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Hz: 997, Duration: time.Minute}, 1000)
				checkHot(t, p, tier, truth.Line)
			})
		}
	}
}

func checkHot(t *testing.T, p *profile.Profile, tier symbolize.Tier, line int) {
	t.Helper()
	lines, tiers := make(map[int]uint64), make(map[symbolize.Tier]uint64)
	var all uint64
	for _, s := range p.Stacks {
		at := slices.IndexFunc(s.Frames, isJS)
		if at < 0 || s.Frames[at].Name != "hot" {
			continue
		}
		all += s.Value
		lines[s.Frames[at].ExecutingLine] += s.Value
		tiers[s.Frames[at].Tier] += s.Value
	}
	t.Logf("samples by line = %v, by tier = %v; failures = %v", lines, tiers, p.Failures)
	const least = 95 // percent
	if all < 500 || 100*lines[line] < least*all || 100*tiers[tier] < least*all {
		t.Errorf("samples = %d, of line %d = %d, of tier %v = %d, want 500 or more, %d %% of each", all, line, lines[line], tier, tiers[tier], least)
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
	const most = 2 // of code that V8 replaces at that moment; checkLines and the shares see to the rest
	if n := p.Failures["positions"]; n > most {
		t.Errorf("positions that could not be read = %d, want %d at most", n, most)
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
				t.Errorf("%d samples have a stack that the program never has:\n%s", s.Value, executing(frames))
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

// entered reports whether the innermost function was sampled in compiled code, which it
// entered in its loop.
func (l *lineRun) entered() bool {
	const enough = 100
	compiled := uint64(0)
	for _, s := range l.stacks {
		if frames, _ := below(s.Frames); len(frames) > 0 && frames[0].Tier > symbolize.Baseline {
			compiled += s.Value
		}
	}
	return compiled >= enough
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
	if nodetest.Major(version) < 22 {
		compile = []string{"--interrupt-budget=2000"}
	}
	return map[string][]string{
		"collections":  {"--max-semi-space-size=1", "--gc-interval=500"},
		"compilations": append(compile, "--max-semi-space-size=1"),
		"scavenges":    append(slices.Clone(compile), "--stress-scavenge=10", "--gc-interval=2000"),
		"compactions":  append(slices.Clone(compile), "--max-semi-space-size=1", "--stress-compaction", "--gc-interval=2000"),
	}
}

// TestChaosLinesAreOfTheirFunction profiles a program that makes new functions all the
// time, while V8 collects and compiles: function f<g>_<i> has the ten lines from
// 10*i+1, and calls the next on the sixth. With USTACK_CHAOS=1, it takes 100,000 stacks of each.
func TestChaosLinesAreOfTheirFunction(t *testing.T) {
	nodetest.Root(t)
	for _, version := range someVersions() {
		for name, flags := range stresses(version) {
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), name), func(t *testing.T) {
				nodetest.NothingLeft(t, programs...)
				target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Flags: flags, Script: "ranges.js"})
				o := Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Duration: time.Minute, Hz: 1997}
				ranges := rangeCount{without: make(map[string]uint64), failures: make(trace.Failures)}
				for range nodetest.Rounds(1, 5) {
					ranges.add(t, profileUntil(t, o, uint64(nodetest.Rounds(4000, 20_000))))
				}
				most := uint64(40) // the busier the machine is, the more move before they are read
				if name == "compactions" {
					most = 60
				}
				ranges.check(t, most)
			})
		}
	}
}

// A rangeCount counts what profiles of ranges.js have of its functions. Stacks that differ
// only in native frames count once: all of a long pause, in which V8 moves objects, may have
// the same functions without lines.
type rangeCount struct {
	stacks, right, wrong, inlined uint64
	without                       map[string]uint64 // frames that have no line
	failures                      trace.Failures
}

func (r *rangeCount) add(t *testing.T, p *profile.Profile) {
	t.Helper()
	r.stacks += p.Total
	for cause, n := range p.Failures {
		r.failures[cause] += n
	}
	counted := make(map[string]bool)
	for _, s := range p.Stacks {
		functions := slices.DeleteFunc(slices.Clone(s.Frames), func(f symbolize.Frame) bool { return f.Kind != symbolize.JS })
		chain := executing(functions)
		if counted[chain] {
			continue
		}
		counted[chain] = true
		callee := ""
		for _, f := range functions {
			var g, i int
			if n, _ := fmt.Sscanf(f.Name, "f%d_%d", &g, &i); n != 2 {
				continue
			}
			at := f.ExecutingLine - 10*i
			calls := callee == fmt.Sprintf("f%d_%d", g, i+1)
			switch {
			case f.ExecutingLine == 0:
				r.without[fmt.Sprintf("%v, leaf %t", f.Tier, callee == "")]++
			case at < 1 || at > 10 || calls && at != 6:
				if r.wrong++; r.wrong == 1 {
					t.Errorf("%s runs line %d of its ten lines, and calls %s:\n%s", f.Name, at, callee, executing(s.Frames))
				}
			default:
				r.right++
			}
			if f.Inlined {
				r.inlined++
			}
			callee = f.Name
		}
	}
}

// check allows some percent of the frames to have no line: what moves all the time
// cannot always be read.
func (r *rangeCount) check(t *testing.T, mostUnknown uint64) {
	t.Helper()
	var unknown uint64
	for _, n := range r.without {
		unknown += n
	}
	t.Logf("stacks = %d, frames with right lines = %d, wrong = %d, inlined = %d, without = %d: %v; failures = %v",
		r.stacks, r.right, r.wrong, r.inlined, unknown, r.without, r.failures)
	if r.wrong > 0 || r.right < 300 || 100*unknown > mostUnknown*(r.right+unknown) {
		t.Errorf("frames with right lines = %d, wrong = %d, without = %d, want 300 or more, none, %d %% at most", r.right, r.wrong, unknown, mostUnknown)
	}
}
