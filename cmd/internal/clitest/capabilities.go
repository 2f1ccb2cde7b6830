package clitest

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ustack/testdata/nodetest"
	"ustack/tools/check"
)

// busy is a program that repeatedly does everything that the tools trace.
const busy = `const fs = require('fs');
fs.writeSync(1, 'ready\n');
setInterval(() => {
  const end = Date.now() + 10;
  while (Date.now() < end);
  try { fs.closeSync(99); } catch { /* that is what is looked for */ }
  fs.readFile('/etc/hostname', () => {});
}, 20);`

// CheckCapabilities checks that a command, run by an unprivileged user with
// just these capabilities, works on a process of another user, and that without
// any one of them it is refused before it starts, with an error that names the
// missing one. In the command's arguments {pid} is the process and {dir} a
// directory to write to.
func CheckCapabilities(t *testing.T, needed []check.Capability, command ...string) {
	t.Helper()
	nodetest.Root(t)
	path := copyForAll(t, command[0])
	dir := filepath.Dir(path)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	words := strings.NewReplacer("{pid}", strconv.Itoa(foreign(t)), "{dir}", dir)
	run := func(capabilities []check.Capability) (string, int) {
		cmd := exec.Command(path, command[1:]...)
		for i, word := range cmd.Args {
			cmd.Args[i] = words.Replace(word)
		}
		cmd.Dir, cmd.SysProcAttr = "/", nobody()
		for _, c := range capabilities {
			cmd.SysProcAttr.AmbientCaps = append(cmd.SysProcAttr.AmbientCaps, uintptr(c))
		}
		out, _ := cmd.CombinedOutput() // its status says how it ended
		return string(out), cmd.ProcessState.ExitCode()
	}
	t.Run("exactly those", func(t *testing.T) {
		if out, status := run(needed); status != 0 || strings.Contains(out, "CAP_") {
			t.Errorf("exit status = %d, want 0, and no word of capabilities in %s", status, out)
		}
	})
	for i, c := range needed {
		t.Run("without "+c.String(), func(t *testing.T) {
			out, status := run(slices.Delete(slices.Clone(needed), i, i+1))
			if status != 1 || !strings.Contains(out, c.String()+" is missing (run as root, or with "+c.String()+")") {
				t.Errorf("exit status = %d, want 1, and that %v is missing in %s", status, c, out)
			}
			if !strings.Contains(out, "; see "+command[0]+" --check") || strings.Count(out, "\n") != 1 {
				t.Errorf("output = %s, want one line that refers to --check", out)
			}
		})
	}
}

// foreign starts Node.js as a separate user and returns its pid.
func foreign(t *testing.T) int {
	t.Helper()
	node, err := exec.LookPath("node") // the cached ones belong to root
	if err != nil {
		nodetest.MustRun(t, err.Error())
	}
	const id = 65533
	cmd := exec.Command(node, "-e", busy)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}, Pdeathsig: syscall.SIGKILL}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it runs until then
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("first line = %q, %v, want ready", line, err)
	}
	return cmd.Process.Pid
}

// CheckCheck checks what a command's --check prints, as a table and as JSON:
// for root that it works, and what it needs; for a user without privileges that
// it does not, and why.
func CheckCheck(t *testing.T, name, needed string) {
	t.Helper()
	nodetest.Root(t)
	table, err := exec.Command(name, "--check").Output()
	if err != nil || !strings.Contains(string(table), "\nyes    "+needed) {
		t.Errorf("status = %v, want 0 and %q among what works in\n%s", err, needed, table)
	}
	cmd := exec.Command(copyForAll(t, name), "--check", "--json")
	cmd.Dir, cmd.SysProcAttr = "/", nobody()
	out, _ := cmd.Output() // its status says how it ended
	var report check.Report
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	i := slices.IndexFunc(report.Checks, func(r check.Result) bool { return r.Name == check.Ptrace.String() })
	if i < 0 || report.Checks[i].OK || !strings.Contains(report.Checks[i].Detail, "CAP_SYS_PTRACE is missing (run as root") {
		t.Errorf("checks = %+v, want that CAP_SYS_PTRACE is missing", report.Checks)
	}
	if status := cmd.ProcessState.ExitCode(); report.Works != (status == 0) || report.Tool != name {
		t.Errorf("%s works = %v with status %d, want 0 just if %s does", report.Tool, report.Works, status, name)
	}
}
