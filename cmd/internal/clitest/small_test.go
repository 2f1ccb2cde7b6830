package clitest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"ustack/cmd/internal/cli"
	"ustack/tools/outfile"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"small": func() { cli.Main(waiting()) }})
}

// waiting is a command that waits, then prints for what. It has faults on request.
func waiting() *cobra.Command {
	var targets cli.Targets
	var duration cli.Duration
	cmd := &cobra.Command{Use: "small " + cli.TargetsUse}
	targets.Register(cmd, "wait for")
	flags := cmd.Flags()
	flags.Var(&duration, "duration", "stop at once")
	path := flags.String("output", "", "write to `FILE`")
	careless := flags.Bool("careless", false, "write to the file itself")
	silent := flags.Bool("silent", false, "do not say what would help")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if os.Geteuid() != 0 && !*silent {
			return errors.New("not permitted (run as root, or with CAP_BPF and CAP_PERFMON)")
		}
		if err := lacking(*silent); err != nil {
			return err
		}
		write := func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "{\"pid\":%v}\n", &targets)
			return err
		}
		save := func() error { return write(cmd.OutOrStdout()) }
		switch {
		case *careless:
			save = func() error {
				file, err := os.OpenFile(*path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK, 0o600)
				if err != nil {
					return err
				}
				_, err = file.WriteString("much")
				return errors.Join(err, file.Close())
			}
		case *path != "":
			file, err := outfile.Open(*path, outfile.Options{})
			if err != nil {
				return err
			}
			defer file.Close()
			save = func() error { return file.Write(write) }
		}
		targets.Messages(cmd).Started(duration, "Waiting for %v.", &targets)
		if duration == 0 {
			<-cmd.Context().Done()
		}
		return save()
	}
	return cmd
}

// lacking says what the kernel lacks of what the tools need.
func lacking(silent bool) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || silent {
		return err
	}
	if !strings.Contains(string(mounts), " - cgroup2 ") {
		return errors.New("no control groups of version 2 are mounted (mount them)")
	}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		return errors.New("the kernel has no BTF: it needs CONFIG_DEBUG_INFO_BTF (use another one)")
	}
	return nil
}

func TestScript(t *testing.T) {
	Scripts{
		Env: map[string]string{"GREETING": "hello"},
		Commands: map[string]func(*testscript.TestScript, bool, []string){
			"pids": func(ts *testscript.TestScript, _ bool, args []string) {
				all := Decode[struct{ PID int }](ts, args[0])
				if len(all) != 1 || strconv.Itoa(all[0].PID) != args[1] {
					ts.Fatalf("objects = %v, want one of process %s", all, args[1])
				}
			},
		},
	}.Run(t)
}

func TestDecodeTakesNothingElse(t *testing.T) {
	type object struct {
		A int `json:"a"`
	}
	for text, want := range map[string]int{
		`{"a":1}`:             1,
		"{\"a\":1}\n{}\n":     2,
		"":                    0,
		`{"a":1,"b":2}`:       0,
		`{"a":1} and no more`: 0,
	} {
		all, err := decode[object](text)
		if len(all) != want || (err == nil) != (want > 0) {
			t.Errorf("objects in %q = %v, %v, want %d", text, all, err, want)
		}
	}
}

func TestProcessIsWaitedForAndEnded(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		p := Start(t, "small", "-p", "42")
		if got, want := p.Line(`^Waiting for (\d+)`), "42"; got != want {
			t.Errorf("group = %q, want %q", got, want)
		}
		got, stdout := p.End(sig), ""
		if sig == syscall.SIGTERM {
			stdout = "{\"pid\":42}\n"
		}
		if got.Signaled() != (sig == syscall.SIGKILL) || p.Stdout() != stdout {
			t.Errorf("%v: end = %v, stdout = %q, want %q", sig, got, p.Stdout(), stdout)
		}
	}
}

func TestLineWithoutAGroupIsAllThatMatches(t *testing.T) {
	p := Start(t, "small", "--all")
	if got, want := p.Line("^Waiting for"), "Waiting for"; got != want {
		t.Errorf("match = %q, want %q", got, want)
	}
}
