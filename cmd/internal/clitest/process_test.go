package clitest

import (
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// A fatality is a test that ends at its first fatal error without ending ours.
type fatality struct {
	testing.TB
	said string
}

func (f *fatality) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (f *fatality) Fatal(args ...any) { f.Fatalf("%s", fmt.Sprint(args...)) }

// fatal returns what test says when it ends early, or nothing.
func fatal(t *testing.T, test func(testing.TB)) string {
	t.Helper()
	f, ended := &fatality{TB: t}, make(chan struct{})
	go func() {
		defer close(ended)
		test(f)
	}()
	<-ended
	return f.said
}

func TestLineIsTheNextThatMatches(t *testing.T) {
	p := Start(t, "sh", "-c", "for line in 'a 1 x' 'b 2 y' 'a 3 z' 'b 4 w'; do echo $line >&2; done")
	for _, tt := range []struct{ pattern, want string }{
		{`^a (\d)`, "1"},
		{`^a (\d) (.)`, "z"}, // its last group, of the line after b
		{`\d`, "4"},
	} {
		if got := p.Line(tt.pattern); got != tt.want {
			t.Errorf("line of %s = %q, want %q", tt.pattern, got, tt.want)
		}
	}
}

func TestProcessesThatDoNotDoIt(t *testing.T) {
	for name, tt := range map[string]struct {
		test func(testing.TB)
		want string
	}{
		"no such line":    {func(t testing.TB) { Start(t, "sh", "-c", "echo some >&2").Line("^other") }, "no line on stderr matches ^other"},
		"no such command": {func(t testing.TB) { Start(t, "/none/command") }, "no such file or directory"},
		"ended before": {func(t testing.TB) {
			p := Start(t, "sleep", "60")
			p.End(syscall.SIGKILL)
			p.End(syscall.SIGKILL)
		}, "already finished"},
		"as it should": {func(t testing.TB) { Start(t, "sh", "-c", "echo some >&2").Line("^some") }, ""},
	} {
		if got := fatal(t, tt.test); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestEndReadsTheRest ends a command that then prints more than a pipe holds.
func TestEndReadsTheRest(t *testing.T) {
	p := Start(t, "sh", "-c", `trap 'kill $!; yes text | head -n 50000 >&2; echo done; exit 3' TERM
		sleep 60 >&- 2>&- & echo ready >&2; wait`)
	p.Line("ready")
	if status := p.End(syscall.SIGTERM); !status.Exited() || status.ExitStatus() != 3 || p.Stdout() != "done\n" {
		t.Errorf("end = %v (status %d), stdout = %q, want status 3 and done", status, status.ExitStatus(), p.Stdout())
	}
}

func TestProcessEndsWithItsTest(t *testing.T) {
	var left *Process
	t.Run("test", func(t *testing.T) { left = Start(t, "sleep", "60") })
	if state := left.cmd.ProcessState; state == nil || state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("state after the test = %v, want killed", state)
	}
}

func TestFailureIsOfStatusAndReason(t *testing.T) {
	for script, want := range map[string]int{
		"echo the reason; exit 1":           0,
		"echo the reason >&2; exit 1":       0,
		"echo the reason; exit 2":           1,
		"echo the reason":                   1,
		"echo the reason; kill -KILL $$":    1,
		"echo another; exit 1":              1,
		"exit 0":                            2,
		"echo before the reason it; exit 1": 0,
	} {
		got := &complaints{TB: t}
		out := Fails(got, exec.Command("sh", "-c", script), "the reason")
		if got.errors != want || strings.HasPrefix(script, "echo") && !strings.HasSuffix(out, "\n") {
			t.Errorf("%s: %d complaints, want %d about %q", script, got.errors, want, out)
		}
	}
}

func TestInterrupt(t *testing.T) {
	for _, tt := range []struct {
		name, atSignal string
		status, want   int
	}{
		{"success", "exit 0", 0, 0},
		{"failure that is expected", "exit 1", 1, 0},
		{"failure", "exit 1", 0, 1},
		{"success that is not expected", "exit 0", 1, 1},
		{"killed", "kill -KILL $$", 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := Start(t, "sh", "-c", "trap 'kill $!; "+tt.atSignal+"' INT; sleep 60 >&- 2>&- & echo ready >&2; wait")
			p.Line("ready")
			got := &complaints{TB: t}
			if took := interrupt(got, p, tt.status); took <= 0 || got.errors != tt.want {
				t.Errorf("complaints = %d after %v, want %d", got.errors, took, tt.want)
			}
		})
	}
}
