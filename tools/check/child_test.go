package check

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
)

// A job is what the test binary does as a child, with other privileges and in other
// namespaces than the test's.
type job struct {
	Proc  bool              // mount the /proc of its PID namespace
	Empty []string          // folders that appear empty
	Null  []string          // files that appear empty
	Files map[string]string // to write, by name, after that
	Tools []string          // to report on
	PIDs  []int             // to read, to dump and to send signals to
}

// An answer is what a child found.
type answer struct {
	Reports map[string]Report
	Access  []access
}

// access says why a process may not be read, dumped or sent signals; "" if it may.
type access struct{ Read, Dump, Signal string }

const jobVariable = "USTACK_CHECK_JOB"

func TestMain(m *testing.M) {
	text := os.Getenv(jobVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	var j job
	err := json.Unmarshal([]byte(text), &j)
	if err == nil {
		err = j.prepare()
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(j.do())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (j job) prepare() error {
	if j.Proc {
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			return fmt.Errorf("mount proc: %w", err)
		}
	}
	for _, folder := range j.Empty {
		if err := unix.Mount("tmpfs", folder, "tmpfs", 0, ""); err != nil {
			return fmt.Errorf("hide %s: %w", folder, err)
		}
	}
	for _, file := range j.Null {
		if err := unix.Mount("/dev/null", file, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("hide %s: %w", file, err)
		}
	}
	for name, text := range j.Files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (j job) do() answer {
	a := answer{Reports: map[string]Report{}}
	for _, tool := range j.Tools {
		a.Reports[tool] = Tool(tool)
	}
	text := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	for _, pid := range j.PIDs {
		a.Access = append(a.Access, access{text(Process(pid, Read)), text(Process(pid, Dump)), text(Signal(pid))})
	}
	return a
}

// run has a child do the job. It runs the test binary by an open file: the path to it may
// be hidden from other users.
func run(t *testing.T, j job, attributes *syscall.SysProcAttr) answer {
	t.Helper()
	nodetest.Root(t)
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/fd/3")
	cmd.ExtraFiles, cmd.SysProcAttr, cmd.Dir = []*os.File{self}, attributes, "/"
	cmd.Env = append(os.Environ(), jobVariable+"="+string(text))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("child: %v: %s", err, stderr.String())
	}
	var a answer
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return a
}

// nobody is for a child of an unprivileged user with only these capabilities.
func nobody(capabilities ...Capability) *syscall.SysProcAttr {
	const id = 65534
	a := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	for _, c := range capabilities {
		a.AmbientCaps = append(a.AmbientCaps, uintptr(c))
	}
	return a
}

// apart is for a child of root in a mount namespace of its own.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS} }

// result returns a tool's check of that name.
func (a answer) result(t *testing.T, tool, name string) Result {
	t.Helper()
	checks := a.Reports[tool].Checks
	at := slices.IndexFunc(checks, func(r Result) bool { return r.Name == name })
	if at < 0 {
		t.Fatalf("%s has no check of %s in %+v", tool, name, checks)
	}
	return checks[at]
}
