package syscalls

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/testdata/nodetest"
	"ustack/tools/event"
	"ustack/tools/trace"
)

// TestCallsAreThoseOfStrace has strace watch the same thread: the calls, their order and their
// results must be the same.
func TestCallsAreThoseOfStrace(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		nodetest.MustRun(t, "no strace")
	}
	oneVersion(t, func(t *testing.T, node string) {
		target := nodetest.Start(t, node, nodetest.Options{Script: "made.js", Args: []string{filepath.Join(t.TempDir(), "file")}})
		log := filepath.Join(t.TempDir(), "strace")
		cmd := exec.Command(strace, "-o", log, "-p", strconv.Itoa(target.PID))
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		said, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || !strings.Contains(line, "attached") {
			_ = cmd.Process.Kill()
			nodetest.MustRun(t, "strace: "+line)
		}
		w := begin(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}})
		perform(t, target)
		var got []string
		for _, c := range w.end() {
			if c.TID == target.PID && c.State == Returned {
				got = append(got, c.Syscall.Name+" "+result(&c))
			}
		}
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait() // by that signal
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		got, want := between(got), between(straced(string(text)))
		if diff := cmp.Diff(want, got); len(want) < 60 || diff != "" {
			t.Errorf("%d calls (-strace +got):\n%s", len(want), diff)
		}
	})
}

// result is a call's result as strace writes it, of calls for which that is a number or an error.
func result(c *Call) string {
	if c.Errno() != 0 {
		return event.ErrnoName(c.Errno())
	}
	if a := c.Result; a >= 0 && a < 1<<20 {
		return strconv.FormatInt(a, 10)
	}
	return "-"
}

var line = regexp.MustCompile(`(?m)^(\w+)\(.*\) += (0x[0-9a-f]+|-1 (E\w+)|\d+)`)

// straced returns the calls in strace's output.
func straced(text string) (calls []string) {
	for _, m := range line.FindAllStringSubmatch(text, -1) {
		result := m[2]
		if m[3] != "" {
			result = m[3]
		} else if strings.HasPrefix(result, "0x") || len(result) > 6 {
			result = "-"
		}
		calls = append(calls, m[1]+" "+result)
	}
	return calls
}

// between returns the calls from the first file that cannot be opened to the last that is read.
func between(calls []string) []string {
	from := slices.Index(calls, "openat ENOENT")
	to := len(calls)
	for to > 0 && !strings.HasPrefix(calls[to-1], "pread64 ") {
		to--
	}
	if from < 0 || to < from {
		return nil
	}
	return calls[from:to]
}
