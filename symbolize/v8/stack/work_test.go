package stack_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"ustack/testdata/nodetest/calls"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize"
	"ustack/symbolize/v8/stack"
	"ustack/testdata/nodetest"
	"ustack/tools/core"
	"ustack/tools/jscore"
)

// TestRunningStacksAreWhole examines working programs at random moments: in V8's
// interpreter, in a prologue, in the collector, in a loop that was entered in the middle.
func TestRunningStacksAreWhole(t *testing.T) {
	for _, version := range nodetest.Versions {
		for _, program := range []string{"mixed.js", "purecpu.js", "gcstress.js"} {
			if !matrix() && (program != "mixed.js" || nodetest.Major(version) != 24) {
				continue
			}
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), program), func(t *testing.T) {
				target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: program})
				for range 5 {
					d := dumped(t, target.PID)
					s := d.Stack(d.Threads()[0])
					if reason := calls.Doubt(s); reason != "" {
						t.Errorf("%s:\n%s", reason, calls.Listing(s))
					}
				}
			})
		}
	}
}

// TestDamagedCoreIsSurvived changes more and more bytes of a core.
func TestDamagedCoreIsSurvived(t *testing.T) {
	c := calls.Start(t, "24.21.0", nil)
	path := filepath.Join(t.TempDir(), "core")
	if _, err := core.Write(t.Context(), c.PID, path, core.Options{}); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		d, err := jscore.Open(t.Context(), path, jscore.Options{})
		if err != nil {
			break // in its headers, too
		}
		for _, thread := range d.Threads() {
			if got := len(d.Stack(thread).Frames); got > stack.MaxFrames+1 {
				t.Errorf("frames = %d, want %d at most", got, stack.MaxFrames)
			}
		}
		d.Isolates()
		d.Arguments()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		const headers = 64 << 10
		for range 20000 {
			if _, err := file.WriteAt([]byte{byte(random.Uint32())}, headers+random.Int64N(info.Size()-headers)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestFunctionsInCHaveNames has a program wait in a C++ function of V8 and in one of
// Node.js.
func TestFunctionsInCHaveNames(t *testing.T) {
	script := filepath.Join(t.TempDir(), "waits.js")
	text := `const fs = require('fs');
		const { ready } = require(process.argv[2]);
		ready({});
		if (process.argv[3] === 'v8') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 3 - 3, 0, 1e9);
		else fs.readSync(fs.openSync('/dev/ptmx'), Buffer.alloc(1));`
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, version := range nodetest.Versions {
		if !matrix() && i%3 != 0 {
			continue
		}
		for of, name := range map[string]string{"v8": "wait", "node": "read"} {
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), of), func(t *testing.T) {
				target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
					Script: script, Args: []string{nodetest.Program("lib/ready.js"), of},
				})
				d := waitFor(t, target.PID, name)
				frames := d.Stack(d.Threads()[0]).Frames
				at := slices.IndexFunc(frames, func(f stack.Frame) bool { return f.Kind == symbolize.Builtin && f.Name == name })
				if of == "node" {
					return
				}
				var got []string
				for _, v := range frames[at].Call.Arguments {
					got = append(got, calls.Describe(t, d.Heap(), v))
				}
				if diff := cmp.Diff([]string{"Int32Array", "0", "0", "1000000000"}, got); diff != "" {
					t.Errorf("arguments (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// waitFor returns a core of a process in which a builtin of that name is running: the
// process has announced that it is about to call it.
func waitFor(t *testing.T, pid int, name string) *jscore.Dump {
	t.Helper()
	const tries = 20
	for range tries {
		d := dumped(t, pid)
		s := d.Stack(d.Threads()[0])
		if slices.ContainsFunc(s.Frames, func(f stack.Frame) bool { return f.Kind == symbolize.Builtin && f.Name == name }) {
			return d
		}
		t.Logf("not there yet:\n%s", calls.Listing(s))
	}
	t.Fatalf("no function %s", name)
	return nil
}
