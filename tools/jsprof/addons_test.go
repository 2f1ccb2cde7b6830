package jsprof

import (
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// addonSamples are enough that one lost stack in 200 shows.
const addonSamples = 1000

// profileNative profiles natives.js with one add-on.
func profileNative(t *testing.T, version, name, file string) *profile.Profile {
	t.Helper()
	nodetest.NothingLeft(t, programs...)
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "natives.js", Args: []string{name, file}})
	return profileUntil(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Hz: 997, Duration: time.Minute}, addonSamples)
}

// checkShare reports an error if more than one of 200 samples lacks what it should have.
func checkShare(t *testing.T, what string, right, all uint64, wrong []string) {
	t.Helper()
	if t.Logf("%s: %d of %d samples", what, right, all); all < addonSamples/10 || right*200 < all*199 {
		t.Errorf("%s: %d of %d samples, want 99.5 %% of many; others: %q", what, right, all, wrong[:min(len(wrong), 5)])
	}
}

// noTables are the flags for code that no unwind table describes.
var noTables = []string{nodetest.NoFramePointers, "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"}

// TestAddonsHideNoCaller profiles an add-on whose functions use the frame pointer for
// other data, with names and without, with unwind tables and without.
func TestAddonsHideNoCaller(t *testing.T) {
	nodetest.Root(t)
	for _, version := range startVersions() {
		for _, flags := range [][]string{
			{nodetest.NoFramePointers},
			{nodetest.NoFramePointers, "-s"},
			{nodetest.FramePointers},
			noTables,
			append(slices.Clone(noTables), "-s"),
		} {
			t.Run(fmt.Sprintf("node%d/%v", nodetest.Major(version), flags), func(t *testing.T) {
				p := profileNative(t, version, "chain", chain(t, nodetest.Node(t, version), flags...))
				var right, all uint64
				var wrong []string
				for _, s := range p.Stacks {
					frames, ok := inChain(s)
					if !ok {
						continue
					}
					all += s.Value
					if isChain(frames, slices.Contains(flags, "-s")) && reachesStart(s) {
						right += s.Value
					} else {
						wrong = append(wrong, fmt.Sprint(len(frames), cut(s), frames))
					}
				}
				checkShare(t, "with all callers", right, all, wrong)
			})
		}
	}
}

// chain compiles chain.c for node.
func chain(t *testing.T, node string, flags ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "chain.node")
	headers := filepath.Join(filepath.Dir(node), "..", "include", "node")
	args := append([]string{"-O2", "-Wall", "-shared", "-fPIC", "-isystem", headers, "-o", file, nodetest.Program("chain.c")}, flags...)
	if out, err := exec.CommandContext(t.Context(), "gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("compile chain.c: %v\n%s", err, out)
	}
	return file
}

// inChain returns the add-on's frames of a stack, leaf first, with the function that has
// called it; false if outer has not been called yet.
func inChain(s profile.Stack) (frames []symbolize.Frame, ok bool) {
	for i, f := range s.Frames {
		if path.Base(f.Module) == "chain.node" {
			frames = append(frames, f)
			if i+1 < len(s.Frames) && path.Base(s.Frames[i+1].Module) != "chain.node" {
				ok = len(frames) > 1 // else spin itself, before or after
			}
		}
	}
	return frames, ok
}

// isChain reports whether frames are the last of compare, inner, middle, outer and spin.
func isChain(frames []symbolize.Frame, stripped bool) bool {
	want := []string{"compare", "inner", "middle", "outer", "spin"}
	if len(frames) > len(want) {
		return false
	}
	for i, f := range frames {
		if name := want[len(want)-len(frames)+i]; !stripped && f.Name != name {
			return false
		}
	}
	return true
}

// TestStacksOfPackagesAreWhole profiles add-ons that were compiled elsewhere.
func TestStacksOfPackagesAreWhole(t *testing.T) {
	nodetest.Root(t)
	for _, tt := range []struct {
		name  string
		file  func(testing.TB) string
		since int    // Node.js
		files string // regular expression
	}{
		{"bcrypt", nodetest.Bcrypt, 16, `^bcrypt\.glibc\.node$`},
		{"sharp", nodetest.Sharp, 18, `^(sharp-linux-x64\.node|libvips-cpp\.so.*)$`},
	} {
		files := regexp.MustCompile(tt.files)
		for _, version := range startVersions() {
			if nodetest.Major(version) < tt.since {
				continue
			}
			t.Run(tt.name+"/"+version, func(t *testing.T) {
				p := profileNative(t, version, tt.name, tt.file(t))
				var right, all uint64
				var wrong []string
				for _, s := range p.Stacks {
					if !slices.ContainsFunc(s.Frames, func(f symbolize.Frame) bool { return files.MatchString(path.Base(f.Module)) }) {
						continue
					}
					all += s.Value
					if reachesStart(s) {
						right += s.Value
					} else {
						wrong = append(wrong, cut(s))
					}
				}
				checkShare(t, "from their thread's start on", right, all, wrong)
			})
		}
	}
}
