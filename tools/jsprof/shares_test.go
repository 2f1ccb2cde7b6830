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

// shareForms are the ways in which shares.js calls the functions whose shares are
// known; `make test-matrix` runs all of them for every version.
var shareForms = []string{"plain", "recursive", "mutual", "anonymous", "methods", "async", "deep"}

const (
	wantSamples = 1500 // of the functions whose shares are known
	// enoughSamples are so many that chance moves no share by 3 points (5 standard
	// deviations); with fewer, a share that differs is sampled again.
	enoughSamples = 7000
	maxProfiles   = 10 // until there are so many
	tolerance     = 3  // points
)

// TestSharesAreTrue profiles programs whose CPU shares are known by construction.
func TestSharesAreTrue(t *testing.T) {
	nodetest.Root(t)
	for i, version := range nodetest.Versions {
		forms := shareForms
		if !matrix() { // one form for each version
			forms = shareForms[i%len(shareForms):][:1]
		}
		for _, form := range forms {
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), form), func(t *testing.T) {
				testShares(t, nodetest.Node(t, version), version, form, nil)
			})
		}
	}
}

// testShares profiles a program until all processes that run it have enough samples.
// Warnings go to warn, or fail the test if it is nil.
func testShares(t *testing.T, node, version, form string, warn func(error)) {
	t.Helper()
	nodetest.NothingLeft(t, programs...)
	var counts []*shareCount
	var pids []int
	for _, args := range [][]string{{form}, {form, "--gc"}} {
		target := nodetest.Start(t, node, nodetest.Options{
			Flags: append(nodetest.NoInlining(version), "--max-semi-space-size=1"), Script: "shares.js", Args: args,
		})
		count := &shareCount{pid: target.PID}
		target.Facts(&count.truth)
		count.samples = make([]uint64, len(count.truth.Functions))
		counts, pids = append(counts, count), append(pids, target.PID)
	}
	lacks := func(c *shareCount) bool {
		return c.all < wantSamples || c.all < enoughSamples && len(c.wrong()) > 0
	}
	for range maxProfiles {
		// The program that creates garbage spends more than half of its samples on it.
		p := profileUntil(t, Options{Selection: trace.Selection{PIDs: pids}, Hz: 997, Duration: 30 * time.Second, Warn: warn}, 6*wantSamples)
		for _, c := range counts {
			c.add(p)
			t.Logf("process %d: %d samples of %d in the functions, wrong shares: %q", c.pid, c.all, p.Total, c.wrong())
		}
		if !slices.ContainsFunc(counts, lacks) {
			break
		}
	}
	for _, c := range counts {
		c.check(t)
	}
}

// A shareCount counts a process's samples in the functions whose shares are known.
type shareCount struct {
	pid     int
	truth   nodetest.Shares
	samples []uint64 // by function
	all     uint64
}

func (c *shareCount) add(p *profile.Profile) {
	for _, s := range p.Stacks {
		if s.PID != c.pid {
			continue
		}
		at := slices.IndexFunc(c.truth.Functions, func(f nodetest.Share) bool {
			return slices.ContainsFunc(s.Frames, func(g symbolize.Frame) bool {
				return g.File == c.truth.File && g.Line == f.Line && g.Column == f.Column
			})
		})
		if at >= 0 {
			c.samples[at] += s.Value
			c.all += s.Value
		}
	}
}

func (c *shareCount) check(t *testing.T) {
	t.Helper()
	if c.all < wantSamples {
		t.Errorf("samples of process %d = %d, want %d or more", c.pid, c.all, wantSamples)
	}
	for _, wrong := range c.wrong() {
		t.Errorf("of %d samples, %s", c.all, wrong)
	}
}

// wrong describes the shares that differ from the truth.
func (c *shareCount) wrong() (all []string) {
	for i, f := range c.truth.Functions {
		got := 100 * float64(c.samples[i]) / float64(max(c.all, 1))
		if math.Abs(got-f.Percent) > tolerance {
			all = append(all, fmt.Sprintf("share of %s (%d:%d) = %.1f %%, want %.0f %% ± %d", f.Name, f.Line, f.Column, got, f.Percent, tolerance))
		}
	}
	return all
}

// TestCollectorMovesNoNames profiles a program that creates, moves and drops
// functions all the time: generation g has g<g>_0 to g<g>_11 in /gen/g<g>.js,
// nested, so that a name from another generation shows.
func TestCollectorMovesNoNames(t *testing.T) {
	nodetest.Root(t)
	for _, version := range someVersions() {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
				Flags: []string{"--max-semi-space-size=1"}, Script: "gcstress.js",
			})
			p := profileUntil(t, Options{
				Selection: trace.Selection{PIDs: []int{target.PID}}, Duration: time.Minute, Hz: 997,
				Warn: allowBounds(t),
			}, gcSamples())
			var right uint64
			for _, s := range p.Stacks {
				if wrong := mixed(s.Frames); wrong != "" {
					t.Errorf("%d samples: %s in\n%s", s.Value, wrong, text(s.Frames))
				} else if !slices.ContainsFunc(s.Frames, isNameless) {
					right += s.Value
				}
			}
			if right < 1000 {
				t.Errorf("right stacks = %d, want 1000 or more", right)
			}
		})
	}
}

// allowBounds returns a receiver of warnings for a program that makes more functions, code and
// stacks than are kept: others fail the test.
func allowBounds(t *testing.T) func(error) {
	return func(err error) {
		if text := err.Error(); !strings.HasSuffix(text, "are kept") && !strings.HasSuffix(text, "[other stacks]") {
			t.Errorf("warning: %v", err)
		}
	}
}

// gcSamples is how many samples to take, or as many as a minute yields.
func gcSamples() uint64 {
	if matrix() {
		return math.MaxUint64
	}
	return 5000
}

// mixed describes what is wrong with a stack of gcstress.js, empty if nothing is:
// all generation names must be of one generation, from 0 at the root up, in its script.
// Functions without a name have a place; any may be missing in a gap.
func mixed(frames []symbolize.Frame) string {
	next, generation := 0, -1
	missing := false // frames between the last one and this
	for _, f := range slices.Backward(frames) {
		var g, i int
		missing = missing || f.Name == symbolize.Broken
		if isNameless(f) {
			next++
			continue
		}
		if n, _ := fmt.Sscanf(f.Name, "g%d_%d", &g, &i); n != 2 {
			if strings.HasPrefix(f.File, "/gen/") && f.Name != "(anonymous)" {
				return "name " + f.Name + " in script " + f.File
			}
			continue
		}
		if generation < 0 {
			generation, next = g, min(i, next) // of nameless functions, some may be of no generation
		}
		if missing {
			next, missing = max(i, next), false
		}
		if g != generation || i != next || f.File != fmt.Sprintf("/gen/g%d.js", g) {
			return fmt.Sprintf("%s of %s where g%d_%d should be", f.Name, f.File, generation, next)
		}
		next++
	}
	return ""
}

// isNameless reports whether a frame is a function's whose name was not kept, or could not be
// read while the collector moved it.
func isNameless(f symbolize.Frame) bool {
	return f.Kind == symbolize.Native && (f.Module == "[jit]" || f.Name == symbolize.Unknown)
}

func text(frames []symbolize.Frame) string {
	var b strings.Builder
	for _, f := range frames {
		fmt.Fprintf(&b, "  %v %v %s %s:%d:%d %s+%#x\n", f.Kind, f.Tier, f.Name, f.File, f.Line, f.Column, f.Module, f.Offset)
	}
	return b.String()
}
