package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/cmd/internal/clitest"
	"ustack/testdata/nodetest"
)

// A typist sits at a terminal in which jscore runs.
type typist struct {
	t        *testing.T
	terminal *os.File // its far end
	cmd      *exec.Cmd
	seen     string // since the last expect
}

const typingLimit = 30 * time.Second // for what is expected, on a busy machine

// atTerminal starts jscore in a terminal of 24 lines.
func atTerminal(t *testing.T, state string, args ...string) *typist {
	t.Helper()
	far, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		nodetest.MustRun(t, "no pseudo-terminal: "+err.Error())
	}
	t.Cleanup(func() { far.Close() })
	if err := unix.IoctlSetPointerInt(int(far.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(far.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(far.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	near, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	cmd := exec.Command("jscore", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = near, near, near
	cmd.Env = append(os.Environ(), "TERM=xterm", "PAGER=sed s/^/paged:/", "XDG_STATE_HOME="+state)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(typingLimit, func() { _ = cmd.Process.Kill() }) // then reading fails
	t.Cleanup(func() { limit.Stop(); _ = cmd.Process.Kill() })
	return &typist{t: t, terminal: far, cmd: cmd}
}

// expect reads until text is seen, and answers when it is asked where the cursor is.
func (p *typist) expect(text string) {
	p.t.Helper()
	const question, answer = "\x1b[6n", "\x1b[1;1R"
	buffer := make([]byte, 1<<12)
	for !strings.Contains(p.seen, text) {
		n, err := p.terminal.Read(buffer)
		if err != nil {
			p.t.Fatalf("wait for %q: %v, after %q", text, err, p.seen)
		}
		p.seen += string(buffer[:n])
		if before, after, asked := strings.Cut(p.seen, question); asked {
			p.seen = before + after
			p.press(answer)
		}
	}
	_, p.seen, _ = strings.Cut(p.seen, text)
}

func (p *typist) press(keys string) {
	p.t.Helper()
	if _, err := p.terminal.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

func (p *typist) ends(status int) {
	p.t.Helper()
	if _ = p.cmd.Wait(); p.cmd.ProcessState.ExitCode() != status {
		p.t.Errorf("end = %v, want status %d", p.cmd.ProcessState, status)
	}
}

func TestPromptIsATerminals(t *testing.T) {
	core, state := coreOf(t, clitest.NodeVersion, "leaky.js"), t.TempDir()
	p := atTerminal(t, state, core)
	p.expect("Ctrl-D ends.")
	p.expect("> ")
	p.press("v8isola\t\r")
	p.expect(" threads ")
	p.press("nosuch\r")
	p.expect(`unknown command "nosuch"`)
	p.expect("> ")
	p.press("half a line\x03")
	p.expect("> ")
	p.press("findjsobjects -c Session | jsconstructor\r")
	p.expect("\x1b[KSession\r\n") // after the line of progress
	p.press("findjsobjects -c Sess\t\r")
	p.expect("1000")
	p.press("v8types\r") // more than 24 lines
	p.expect("paged:")
	p.press("! echo r''un; exec sleep 1000\r")
	p.expect("run\r\n")
	p.press("\x03")
	p.expect("> ")
	p.press("v8field ConsString second\r")
	p.expect("ConsString < String")
	p.expect("> ")
	p.press("\x04")
	p.ends(0)
	history, err := os.ReadFile(filepath.Join(state, "jscore", "history"))
	if err != nil || !strings.Contains(string(history), "findjsobjects -c Session | jsconstructor\n") {
		t.Errorf("history = %q, %v, want what was typed", history, err)
	}
}

func TestPromptEndsBySignal(t *testing.T) {
	p := atTerminal(t, t.TempDir(), coreOf(t, clitest.NodeVersion, "leaky.js"))
	p.expect("> ")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.ends(0)
}
