package jscore

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/value"
	"ustack/testdata/nodetest"
)

// A noted is what a function of a program knew of its variables.
type noted struct {
	Name      string
	Variables map[string]string
}

// aborted runs a program that notes its variables and aborts, and returns its core.
func aborted(t *testing.T, version, text string, flags ...string) (*Dump, string, []noted) {
	t.Helper()
	script := filepath.Join(t.TempDir(), "program.js")
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	path, _ := nodetest.Killed(t, nodetest.Node(t, version), append(flags, script)...)
	written, err := os.ReadFile(filepath.Join(filepath.Dir(path), "truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var truth []noted
	if err := json.Unmarshal(written, &truth); err != nil {
		t.Fatal(err)
	}
	d := opened(t, path, Options{})
	os.Remove(path) // it is mapped
	return d, script, truth
}

// written returns the frames of functions that noted their variables, outermost first.
func written(d *Dump, script string) []*FrameText {
	var frames []*FrameText
	for _, f := range d.JSStack(d.Threads()[0], StackOptions{Verbose: true}).Frames {
		wraps := slices.ContainsFunc(f.Variables, func(v FrameVariable) bool { return v.Name == "wrapped" })
		if f.Kind == symbolize.JS && f.File == script && f.Name != "done" && f.Name != "finish" && !wraps {
			frames = append(frames, f)
		}
	}
	slices.Reverse(frames)
	return frames[min(1, len(frames)):] // the script itself
}

// shown returns a variable's value as the programs note it.
func shown(d *Dump, v FrameVariable) string {
	switch b := v.Value; {
	case b == nil && v.Class != "":
		id := "undefined"
		if at := slices.IndexFunc(v.Parts, func(part FrameVariable) bool { return part.Name == "id" }); at >= 0 {
			id = shown(d, v.Parts[at])
		}
		return "object " + id
	case b == nil:
		return v.State
	case strings.HasSuffix(b.Kind, "Function"):
		return "function"
	case strings.HasPrefix(b.Kind, "JS"):
		id, err := value.Lookup(d.Heap(), value.Slot{Value: v8.Value(b.Address)}, "id")
		if err != nil {
			return "object undefined"
		}
		return "object " + value.Describe(d.Heap(), id, value.Options{}).Text
	default:
		return string(b.Text)
	}
}

// A score counts variables that are right, missing and wrong.
type score struct{ right, missing, wrong int }

func (s *score) add(other score) {
	s.right, s.missing, s.wrong = s.right+other.right, s.missing+other.missing, s.wrong+other.wrong
}

func (s score) String() string {
	return fmt.Sprintf("%d right, %d missing, %d wrong", s.right, s.missing, s.wrong)
}

// compare compares the variables of frames with what they noted.
func compare(t *testing.T, d *Dump, frames []*FrameText, truth []noted) (s score) {
	t.Helper()
	if len(frames) != len(truth) {
		t.Fatalf("functions = %d, want %d", len(frames), len(truth))
	}
	for i, f := range frames {
		for name, want := range truth[i].Variables {
			at := slices.IndexFunc(f.Variables, func(v FrameVariable) bool { return v.Name == name })
			switch {
			case at < 0 || f.Variables[at].Value == nil && f.Variables[at].Class == "":
				s.missing++
				if testing.Verbose() {
					t.Logf("%s (%v): %s = %s is missing", truth[i].Name, f.Tier, name, want)
				}
			case shown(d, f.Variables[at]) != want:
				s.wrong++
				t.Errorf("%s (%v): %s = %s, want %s", truth[i].Name, f.Tier, name, shown(d, f.Variables[at]), want)
			default:
				s.right++
			}
		}
	}
	return s
}

// TestVariablesAreThoseThatProgramsPrint runs random programs that note their variables.
func TestVariablesAreThoseThatProgramsPrint(t *testing.T) {
	const functions = 60
	seeds := uint64(1)
	if os.Getenv("USTACK_MATRIX") == "1" {
		seeds = 12
	}
	for _, version := range variableVersions() {
		for _, flags := range [][]string{{"--no-opt", "--no-sparkplug"}, {"--always-sparkplug", "--no-opt"}} {
			t.Run(version+flags[0], func(t *testing.T) {
				var all score
				for seed := range seeds {
					d, script, truth := aborted(t, version, program(seed, functions, 0), flags...)
					all.add(compare(t, d, written(d, script), truth))
				}
				t.Log(all)
				if all.right < 99*all.missing {
					t.Errorf("variables: %v, want 99%% right", all)
				}
			})
		}
	}
}

// optimizing are flags with which functions that run often are optimized.
func optimizing(version string) map[string][]string {
	flags := []string{"--no-concurrent-recompilation", "--no-lazy-feedback-allocation"}
	all := map[string][]string{"turbofan": flags}
	if nodetest.Major(version) >= 20 {
		all["turbofan"] = append([]string{"--no-maglev"}, flags...)
	}
	if nodetest.Major(version) >= 24 { // before, --no-opt is for both
		all["maglev"] = append([]string{"--maglev", "--no-opt"}, flags...)
	}
	return all
}

// TestVariablesOfOptimizedCodeAreRightOrMissing runs random programs until they are optimized,
// with functions inlined into one another.
func TestVariablesOfOptimizedCodeAreRightOrMissing(t *testing.T) {
	const functions, rounds = 40, 4000
	seeds := uint64(1)
	if os.Getenv("USTACK_MATRIX") == "1" {
		seeds = 6
	}
	for _, version := range variableVersions() {
		for name, flags := range optimizing(version) {
			t.Run(version+"/"+name, func(t *testing.T) {
				var all score
				optimized := 0
				for seed := range seeds {
					d, script, truth := aborted(t, version, program(seed, functions, rounds), flags...)
					frames := written(d, script)
					all.add(compare(t, d, frames, truth))
					checkNumbered(t, d)
					for _, f := range frames {
						if f.Tier == symbolize.Turbofan || f.Tier == symbolize.Maglev {
							optimized++
						}
					}
				}
				t.Logf("%v in %d functions, %d of them optimized", all, seeds*functions, optimized)
				if optimized < functions/4 || all.right < 5*all.missing {
					t.Errorf("variables: %v in %d optimized functions, want 90%% right", all, optimized)
				}
			})
		}
	}
}

// checkNumbered selects each function on the stack by its number and prints its variables.
func checkNumbered(t *testing.T, d *Dump) {
	t.Helper()
	for number, f := range d.functionFrames(d.Threads()[0]) {
		address, err := strconv.ParseUint(strconv.Itoa(number), 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		id, err := d.FrameID(address)
		if err != nil {
			t.Fatal(err)
		}
		found, err := d.JSFrame(id, StackOptions{Verbose: true})
		if err != nil || len(found.Frames) != 1 || found.Frames[0].Name != f.Name {
			t.Fatalf("function %d = %+v, %v, want %s", number, found, err, f.Name)
		}
		calls, err := d.JSFrame(id, StackOptions{Calls: true})
		if err != nil || len(calls.Frames) != 1 || !slices.Equal(calls.Frames[0].Arguments, found.Frames[0].Arguments) || f.Inlined && len(f.Call.Arguments) > 0 {
			t.Errorf("arguments of function %d, %s: %+v, %v, want %v", number, f.Name, calls, err, found.Frames[0].Arguments)
		}
		for _, v := range found.Frames[0].Variables {
			if v.Value == nil {
				continue
			}
			printed, err := d.PrintVariables(id, PrintOptions{Paths: []string{"." + v.Name}})
			if err != nil || len(printed.Values) != 1 || v.Value.Kind == "SMI" && printed.Values[0].Node.Text != string(v.Value.Text) {
				t.Errorf("%s of function %d, %s: %+v, %v, want %v", v.Name, number, f.Name, printed, err, *v.Value)
			}
		}
	}
}

// variableVersions are the Node.js that variables are tested on.
func variableVersions() []string {
	if os.Getenv("USTACK_MATRIX") == "1" {
		return nodetest.Versions
	}
	return []string{"18.20.8", "26.10.0"}
}

// TestVariablesOfSuspendedFunctions has an async function and a generator that wait, and a
// generator that is optimized, whose registers may be of an earlier suspension.
func TestVariablesOfSuspendedFunctions(t *testing.T) {
	const text = `'use strict';
const never = globalThis.never = new Promise(() => {});
async function waits(first, second) {
	const sum = first + 700, kept = { id: 5 };
	for (const each of ['one', 'two']) { if (each === 'two') await never; }
	return sum + second + kept.id;
}
class Steps { *steps(given) { let count = given * 2; yield 1; const late = 3; yield count + late; } }
function* hot(given) { let i = 0; for (;;) { const old = 'old' + i; yield old; i++; } }
const all = [waits(31, 'text'), new Steps().steps(9), hot(8)];
all[1].next();
for (let i = 0; i < 100000; i++) all[2].next();
globalThis.all = all;
setImmediate(() => { require('fs').writeFileSync('truth.json', '[]'); process.abort(); });
`
	for _, version := range variableVersions() {
		t.Run(version, func(t *testing.T) {
			d, script, _ := aborted(t, version, text)
			g, err := d.Graph(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, place := range d.WaitingText(g, StackOptions{Verbose: true}).Places {
				if place.At.File != script {
					continue
				}
				for _, v := range place.At.Variables {
					got[place.At.Name+"."+v.Name] = shown(d, v)
				}
				if place.At.This != nil {
					got[place.At.Name+".this"] = place.At.This.Class
				}
			}
			for name, want := range map[string]string{
				"waits.first": "31", "waits.second": "text", "waits.sum": "731", "waits.kept": "object 5", "waits.each": "two",
				"steps.given": "9", "steps.count": "18", "steps.late": "not initialized", "steps.this": "Steps",
				"hot.given": "8", "hot.old": "optimized out", "hot.i": "optimized out",
			} {
				if got[name] != want {
					t.Errorf("%s = %q, want %q", name, got[name], want)
				}
			}
		})
	}
}
