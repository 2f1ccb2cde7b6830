package jsprof

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
)

// A charge is a way in which V8's sampler charges a sample to another function than the
// one that runs.
type charge struct {
	name string // form of charged.js that shows it
	last int    // major version of Node.js that has it
	// of returns what V8's sampler sees of a stack, leaf first.
	of func([]symbolize.Frame) []symbolize.Frame
	// right is the function of charged.js that runs, and wrong those that are charged.
	right string
	wrong []string
}

// charges are checked by TestCPUProfCharges.
var charges = []charge{
	// The sampler does not ask what is inlined at the innermost pc, as it does for callers.
	{"inlined", 24, withoutInlined, "inner", []string{"outer", "inlined"}},
	// A builtin may use the frame of the compiled code that calls it. The sampler takes
	// that for the builtin's own, and skips it.
	{"stub", math.MaxInt, withoutCaller, "reader", []string{"caller", "stub"}},
}

func withoutInlined(frames []symbolize.Frame) []symbolize.Frame {
	if compiled(frames[0]) {
		return afterInlined(frames)
	}
	return frames
}

func withoutCaller(frames []symbolize.Frame) []symbolize.Frame {
	if len(frames) < 2 || frames[0].Kind != symbolize.Typed || strings.HasPrefix(frames[0].Name, "<<") || !compiled(frames[1]) {
		return frames
	}
	return afterInlined(frames[1:])[1:]
}

// compiled reports whether a frame is a function's that the interpreter does not run.
func compiled(f symbolize.Frame) bool {
	return f.Kind == symbolize.JS && f.Tier != symbolize.Interpreted
}

// afterInlined returns the frames from the first that is not inlined.
func afterInlined(frames []symbolize.Frame) []symbolize.Frame {
	for len(frames) > 1 && frames[0].Inlined {
		frames = frames[1:]
	}
	return frames
}

// TestCPUProfCharges profiles programs that spend all of their time in one function:
// jsprof charges that one. So does cpu-prof where V8 does not have the charge.
func TestCPUProfCharges(t *testing.T) {
	needCPUProf(t)
	for _, version := range nodetest.Versions {
		for _, c := range charges {
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), c.name), func(t *testing.T) {
				nodetest.NothingLeft(t, programs...)
				file := filepath.Join(t.TempDir(), "run.cpuprofile")
				target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Flags: cpuProfFlags(file), Script: "charged.js", Args: []string{c.name}})
				p, theirs := profileBoth(t, target, file, 3000)
				self := func(u *usage, names ...string) (sum float64) {
					for _, name := range names {
						share, _ := u.shares(declared(t, "charged.js", name))
						sum += share
					}
					return sum
				}
				const most = 97 // percent: the program has to loop
				ours := self(usageOf(p), c.right)
				if ours < most {
					t.Errorf("jsprof's share of %s = %.1f %%, want %d or more", c.right, ours, most)
				}
				right, wrong := self(theirs, c.right), self(theirs, c.wrong...)
				t.Logf("share of %s = %.1f %%, by cpu-prof %.1f; of its callers by cpu-prof %.1f", c.right, ours, right, wrong)
				if charges := wrong > 50; charges != (nodetest.Major(version) <= c.last) || right+wrong < most {
					t.Errorf("cpu-prof charges %s with %.1f %% and its callers with %.1f", c.right, right, wrong)
				}
			})
		}
	}
}

// TestCPUProfMissesTimers profiles a process that sleeps most of the time. The signals of
// cpu-prof interrupt epoll_wait, and libuv waits again for the rest in milliseconds: so a timer
// runs right after a sample, and is done before the next. jsprof samples independently.
func TestCPUProfMissesTimers(t *testing.T) {
	needCPUProf(t)
	for _, version := range nodetest.Versions {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			file := filepath.Join(t.TempDir(), "run.cpuprofile")
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Flags: cpuProfFlags(file), Script: "sleeps.js"})
			p, theirs := profileBoth(t, target, file, 2000)
			var truth float64
			if _, err := fmt.Sscanf(target.Line(), "timer %g", &truth); err != nil {
				t.Fatal(err)
			}
			share := func(u *usage) float64 {
				timer, answer := u.total[declared(t, "sleeps.js", "timer")], u.total[declared(t, "sleeps.js", "answer")]
				return 100 * timer / max(timer+answer, 1)
			}
			ours, their := share(usageOf(p)), share(theirs)
			t.Logf("share of timer = %.1f %%, by the clock %.1f, by cpu-prof %.1f", ours, truth, their)
			const tolerance = 8 // points: chance moves the share of some hundred samples by that
			if math.Abs(ours-truth) > tolerance {
				t.Errorf("share of timer = %.1f %%, want %.1f", ours, truth)
			}
			if their > truth/2 {
				t.Errorf("share of timer by cpu-prof = %.1f %%, want less than half of %.1f", their, truth)
			}
		})
	}
}

// declared returns where a function of a program is defined.
func declared(t *testing.T, program, name string) definition {
	t.Helper()
	file, start := nodetest.Program(program), "function "+name
	return definition{file, nodetest.LineOf(t, file, start+"("), len(start) + 1}
}

// A cpuProf is a file that node --cpu-prof has written. Times are in microseconds.
type cpuProf struct {
	Nodes []struct {
		ID        int
		CallFrame struct {
			ScriptID                 string
			URL                      string
			LineNumber, ColumnNumber int // from 0
		}
		Children []int
	}
	StartTime  float64
	Samples    []int // ids of nodes
	TimeDeltas []float64
}

// readCPUProf returns what the samples between two times say. One that comes late does
// not count: its signal waited until the process had a CPU again, so it says where the
// process lost it, as in a system call that wakes another. jsprof samples the time on a CPU.
func readCPUProf(name string, from, to time.Duration) (*usage, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var p cpuProf
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("decode %s: %w", name, err)
	}
	u, stacks := newUsage(), p.stacks()
	at := p.StartTime
	for i, id := range p.Samples {
		at += p.TimeDeltas[i]
		late := p.TimeDeltas[i] > 1.5*float64(cpuProfInterval.Microseconds())
		if !late && at >= float64(from.Microseconds()) && at < float64(to.Microseconds()) {
			u.add(1, stacks[id])
		}
	}
	return u, nil
}

// stacks returns the functions on each node's stack, leaf first. The nodes of callers come
// first.
func (p *cpuProf) stacks() map[int][]definition {
	callers := make(map[int][]definition)
	stacks := make(map[int][]definition)
	for _, n := range p.Nodes {
		stack := callers[n.ID]
		if f := n.CallFrame; f.ScriptID != "0" && f.LineNumber >= 0 { // neither native nor a regular expression
			stack = append([]definition{{localFile(f.URL), f.LineNumber + 1, f.ColumnNumber + 1}}, stack...)
		}
		stacks[n.ID] = stack
		for _, child := range n.Children {
			callers[child] = stack
		}
	}
	return stacks
}

// localFile returns the path of a file: URL, and other names as they are.
func localFile(name string) string {
	path, ok := strings.CutPrefix(name, "file://")
	if !ok {
		return name
	}
	if plain, err := url.PathUnescape(path); err == nil {
		return plain
	}
	return path
}

// collects matches V8's functions that collect garbage: cpu-prof charges no function for it.
var collects = regexp.MustCompile(`^v8::internal::(Heap::(Collect|Perform|Scavenge|MarkCompact)|Scaveng|\w*MarkCompact|IncrementalMarking|Minor)`)

func collecting(frames []symbolize.Frame) bool {
	for _, f := range frames {
		if f.Kind == symbolize.JS {
			return false
		}
		if f.Kind == symbolize.Native && collects.MatchString(f.Name) {
			return true
		}
	}
	return false
}
