package clitest

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"ustack/testdata/nodetest"
)

// NodeVersion is the Node.js for tests in which the version makes no
// difference.
const NodeVersion = "22.23.3"

// Node skips the test if it lacks privileges, checks at its end that no BPF
// program with one of these names is left in the kernel, and returns the path
// of a Node.js of NodeVersion. Call it first.
func Node(t testing.TB, programs ...string) string {
	t.Helper()
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	return nodetest.Node(t, NodeVersion)
}

// Scripts say how testdata/*.txtar are run. TestMain must have given testscript
// the command.
//
// In a script NODE is the path of Node.js, VERSION is NodeVersion, and there are
// these commands beside testscript's own:
//
//	start PID [FLAG...] PROGRAM [ARG...]  start a program of testdata/programs, or a file
//	contain ID [PID...]                   put processes into a container, beside one without V8
//	exits STATUS COMMAND...               run a command that ends with just that status
type Scripts struct {
	Programs []string          // names of BPF programs that must not be left behind
	Env      map[string]string // further variables
	Commands map[string]func(ts *testscript.TestScript, neg bool, args []string)
}

// Run runs the scripts.
func (s Scripts) Run(t *testing.T) {
	t.Helper()
	node := Node(t, s.Programs...)
	commands := map[string]func(*testscript.TestScript, bool, []string){"start": start, "contain": contain, "exits": exits}
	for name, command := range s.Commands {
		commands[name] = command
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("NODE", node)
			env.Setenv("VERSION", NodeVersion)
			for name, value := range s.Env {
				env.Setenv(name, value)
			}
			env.Values[testing.TB(nil)] = env.T().(testing.TB)
			return nil
		},
		Cmds: commands,
	})
}

func start(ts *testscript.TestScript, neg bool, args []string) {
	at := 1 // the program
	for at < len(args) && strings.HasPrefix(args[at], "-") {
		at++
	}
	if neg || at >= len(args) {
		ts.Fatalf("usage: start PID [FLAG...] PROGRAM [ARG...]")
	}
	t := ts.Value(testing.TB(nil)).(testing.TB)
	target := nodetest.Start(t, ts.Getenv("NODE"), nodetest.Options{Flags: args[1:at], Script: args[at], Args: args[at+1:]})
	ts.Setenv(args[0], strconv.Itoa(target.PID))
}

func contain(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: contain ID [PID...]")
	}
	var pids []int
	for _, word := range args[1:] {
		pid, err := strconv.Atoi(word)
		ts.Check(err)
		pids = append(pids, pid)
	}
	ts.Setenv(args[0], nodetest.Contain(ts.Value(testing.TB(nil)).(testing.TB), pids...))
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("run %s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status = %d, want %d", got, want)
	}
}

// Decode returns the contents of a script's file: one or more values of T in
// JSON, with no unknown fields, and nothing else.
func Decode[T any](ts *testscript.TestScript, file string) []T {
	all, err := decode[T](ts.ReadFile(file))
	if err != nil {
		ts.Fatalf("decode %s: %v", file, err)
	}
	return all
}

func decode[T any](text string) ([]T, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	var all []T
	for {
		var one T
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) && len(all) > 0 {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
}
