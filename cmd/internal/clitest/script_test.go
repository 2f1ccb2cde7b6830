package clitest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// A trial is a test of scripts that notes what fails.
type trial struct {
	log    strings.Builder
	failed bool
}

func (r *trial) Skip(...any)       { runtime.Goexit() }
func (r *trial) Parallel()         {}
func (r *trial) Verbose() bool     { return true }
func (r *trial) Log(args ...any)   { fmt.Fprintln(&r.log, args...) }
func (r *trial) Fatal(args ...any) { r.Log(args...); r.FailNow() }

func (r *trial) FailNow() {
	r.failed = true
	runtime.Goexit()
}

func (r *trial) Run(_ string, test func(testscript.T)) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		test(r)
	}()
	<-ended
}

func TestScriptCommands(t *testing.T) {
	const usageOfStart, usageOfExits = "usage: start PID [FLAG...] PROGRAM [ARG...]", "usage: exits STATUS COMMAND..."
	for script, want := range map[string]string{
		"exits 0 true":                   "",
		"exits 3 sh -c 'exit 3'":         "",
		"exits 0 sh -c 'exit 3'":         "exit status = 3, want 0",
		"exits 3 true":                   "exit status = 0, want 3",
		"exits one true":                 "invalid syntax",
		"exits 0 no-such-command":        "run no-such-command: ",
		"exits":                          usageOfExits,
		"exits 0":                        usageOfExits,
		"! exits 1 true":                 usageOfExits,
		"start":                          usageOfStart,
		"start PID":                      usageOfStart,
		"start PID --flag -x":            usageOfStart,
		"! start PID idle.js":            usageOfStart,
		"objects good 2":                 "",
		"objects good 1":                 "objects = 2",
		"objects bad 1":                  "decode bad: json: unknown field",
		"exits 0 echo text\nstdout text": "",
	} {
		file := filepath.Join(t.TempDir(), "script.txtar")
		text := script + "\n-- good --\n{\"A\":1}\n{\"A\":2}\n-- bad --\n{\"B\":1}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := &trial{}
		got.Run("", func(r testscript.T) {
			testscript.RunT(r, testscript.Params{
				Files: []string{file}, RequireExplicitExec: true,
				Cmds: map[string]func(*testscript.TestScript, bool, []string){"start": start, "exits": exits, "objects": objects},
			})
		})
		if got.failed != (want != "") || !strings.Contains(got.log.String(), want) {
			t.Errorf("%q: failed = %v, want %q in %s", script, got.failed, want, got.log.String())
		}
	}
}

func objects(ts *testscript.TestScript, _ bool, args []string) {
	if n := len(Decode[struct{ A int }](ts, args[0])); fmt.Sprint(n) != args[1] {
		ts.Fatalf("objects = %d, want %s", n, args[1])
	}
}

func TestFrameHasTheNamesOfTheContract(t *testing.T) {
	for text, want := range map[string]bool{
		`{"kind":"js","name":"f","file":"a.js","line":1,"column":2,"tier":"maglev","inlined":true}`: true,
		`{"kind":"native","name":"read","module":"libc.so.6","offset":16}`:                          true,
		`{"executing_line":1,"executing_column":2,"generated_file":"b.js","generated_line":3}`:      true,
		`{"generated_column":1,"generated_executing_line":2,"generated_executing_column":3}`:        true,
		`{"kind":"js","function":"f"}`: false,
		`{"offset":-1}`:                false,
	} {
		if _, err := decode[Frame](text); (err == nil) != want {
			t.Errorf("%s: %v, want it decoded: %v", text, err, want)
		}
	}
	all, err := decode[Frame](`{"name":""}{}`)
	if err != nil || len(all) != 2 || all[0].Name == nil || all[1].Name != nil {
		t.Errorf("frames = %+v, %v, want one with an empty name and one without", all, err)
	}
}
