package jscore

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/symbolize"
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
		if f.Kind == symbolize.JS && f.File == script && f.Name != "done" && f.Name != "note" && !wraps {
			frames = append(frames, f)
		}
	}
	slices.Reverse(frames)
	return frames[min(1, len(frames)):] // the script itself
}

// shown returns a variable's value as the programs note it.
func shown(v FrameVariable) string {
	switch b := v.Value; {
	case b == nil:
		return v.State
	case strings.HasPrefix(b.Kind, "JS"):
		return "object"
	default:
		return b.Text
	}
}

// A score counts variables that are right, missing and wrong.
type score struct{ right, missing, wrong int }

func (s score) String() string {
	return fmt.Sprintf("%d right, %d missing, %d wrong", s.right, s.missing, s.wrong)
}

// compare compares the variables of frames with what they noted.
func compare(t *testing.T, frames []*FrameText, truth []noted) (s score) {
	t.Helper()
	if len(frames) != len(truth) {
		t.Fatalf("functions = %d, want %d", len(frames), len(truth))
	}
	for i, f := range frames {
		for name, want := range truth[i].Variables {
			at := slices.IndexFunc(f.Variables, func(v FrameVariable) bool { return v.Name == name })
			switch {
			case at < 0 || f.Variables[at].Value == nil:
				s.missing++
				if testing.Verbose() {
					t.Logf("%s (%v): %s is missing", truth[i].Name, f.Tier, name)
				}
			case shown(f.Variables[at]) != want:
				s.wrong++
				t.Errorf("%s (%v): %s = %s, want %s", truth[i].Name, f.Tier, name, shown(f.Variables[at]), want)
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
					text := program(seed, functions)
					d, script, truth := aborted(t, version, text, flags...)
					s := compare(t, written(d, script), truth)
					all.right, all.missing, all.wrong = all.right+s.right, all.missing+s.missing, all.wrong+s.wrong
				}
				t.Log(all)
				if all.right < 99*all.missing {
					t.Errorf("variables: %v, want 99%% right", all)
				}
			})
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
