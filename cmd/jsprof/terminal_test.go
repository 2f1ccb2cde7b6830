package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"ustack/cmd/internal/clitest"
	"ustack/testdata/nodetest"
)

// terminalLimit is how long a test waits for something on a terminal.
const terminalLimit = 2 * time.Minute

// lastLimit is how long what jsprof printed may take to be on the screen once it has ended.
const lastLimit = 10 * time.Second

// A terminal is a terminal in which jsprof runs.
type terminal struct {
	t       *testing.T
	cmd     *exec.Cmd
	keys    *os.File // the terminal's own end
	tty     *os.File
	before  *unix.Termios
	screen  *vt.SafeEmulator
	changed chan struct{}
	ended   chan struct{}
}

// inTerminal runs jsprof in a terminal.
func inTerminal(t *testing.T, env []string, args ...string) *terminal {
	t.Helper()
	keys, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{
		t: t, cmd: exec.Command("jsprof", args...), keys: keys, tty: tty, screen: vt.NewSafeEmulator(100, 24),
		changed: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	term.before = term.attributes()
	term.resize(100, 24)
	term.cmd.Env = append(os.Environ(), append([]string{"TERM=xterm-256color", "NO_COLOR="}, env...)...)
	term.cmd.Stdin, term.cmd.Stdout, term.cmd.Stderr = tty, tty, tty
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	if err := term.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go term.show()
	go term.answer()
	go func() {
		_ = term.cmd.Wait() // status returns how it ended
		close(term.ended)
	}()
	t.Cleanup(func() {
		_ = term.cmd.Process.Kill() // it may already have ended
		<-term.ended
		_ = term.screen.Close()
		_ = keys.Close()
		_ = tty.Close()
	})
	return term
}

// show shows what jsprof prints.
func (term *terminal) show() {
	buffer := make([]byte, 1<<16)
	for {
		n, err := term.keys.Read(buffer)
		if err != nil {
			return
		}
		_, _ = term.screen.Write(buffer[:n]) // it takes everything
		select {
		case term.changed <- struct{}{}:
		default:
		}
	}
}

// answer answers what jsprof asks the terminal.
func (term *terminal) answer() {
	buffer := make([]byte, 1<<10)
	for {
		n, err := term.screen.Read(buffer)
		if err != nil {
			return
		}
		_, _ = term.keys.Write(buffer[:n]) // the terminal may be closed
	}
}

func (term *terminal) attributes() *unix.Termios {
	term.t.Helper()
	attributes, err := unix.IoctlGetTermios(int(term.tty.Fd()), unix.TCGETS)
	if err != nil {
		term.t.Fatal(err)
	}
	return attributes
}

func (term *terminal) resize(width, height int) {
	term.t.Helper()
	term.screen.Resize(width, height)
	if err := pty.Setsize(term.keys, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)}); err != nil {
		term.t.Fatal(err)
	}
}

// text returns what is on the screen, without blanks at the ends of lines.
func (term *terminal) text() string {
	lines := strings.Split(ansi.Strip(term.screen.Render()), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \r")
	}
	return strings.Join(lines, "\n")
}

// want waits until the screen matches a pattern.
func (term *terminal) want(pattern string) {
	term.t.Helper()
	wanted := regexp.MustCompile("(?m)" + pattern)
	limit, ended := time.After(terminalLimit), term.ended
	for !wanted.MatchString(term.text()) {
		select {
		case <-term.changed:
		case <-ended: // what it printed last may still be on its way
			ended, limit = nil, time.After(lastLimit)
		case <-limit:
			term.t.Fatalf("the screen does not match %s:\n%s", pattern, term.text())
		}
	}
}

func (term *terminal) press(keys string) {
	term.t.Helper()
	if _, err := term.keys.WriteString(keys); err != nil {
		term.t.Fatal(err)
	}
}

// restored waits for the end, and checks that the terminal is as before.
func (term *terminal) restored(status int) {
	term.t.Helper()
	select {
	case <-term.ended:
	case <-time.After(terminalLimit):
		term.t.Fatalf("jsprof does not end:\n%s", term.text())
	}
	if got := term.cmd.ProcessState.ExitCode(); got != status {
		term.t.Errorf("exit status = %d, want %d\n%s", got, status, term.text())
	}
	if now := term.attributes(); *now != *term.before {
		term.t.Errorf("attributes of the terminal = %+v, want %+v", *now, *term.before)
	}
	for term.screen.IsAltScreen() || term.screen.CursorHidden() {
		select {
		case <-term.changed:
		case <-time.After(terminalLimit):
			term.t.Fatalf("alternate screen: %v, cursor hidden: %v, want neither", term.screen.IsAltScreen(), term.screen.CursorHidden())
		}
	}
}

// TestLiveView uses the view as a user does.
func TestLiveView(t *testing.T) {
	target := nodetest.Start(t, clitest.Node(t, programs...), nodetest.Options{Script: "nested.js", Args: []string{"sort"}})
	pid := strconv.Itoa(target.PID)
	term := inTerminal(t, nil, "live", "-p", pid, "-F", "499")
	term.want(`^node ` + pid + ` nested.js, Node.js v` + clitest.NodeVersion + `  \d+ samples of the last \d+ s`)
	term.want(`^main thread:  idle \d+%  JavaScript [1-9]\d*%`)
	term.want(` ▼SELF   TOTAL  FUNCTION \(JavaScript.*\n +[\d.]+% +[\d.]+%  leaf nested.js:\d+:\d+`)
	term.press("s")
	term.want(`   SELF  ▼TOTAL`)
	term.press("j")
	term.want(`FUNCTION \(all\)`)
	term.want(`^ +[\d.]+%  _start$`)
	term.press("js/compare\r")
	term.want(`filter: compare$`)
	term.want(`\n +([\d.]+%)? +[\d.]+%  compare nested.js:\d+:\d+\n\s*\n`)
	term.press("\r")
	term.want(`→ +compare nested.js`)
	term.want(`calls +leaf nested.js`)
	term.press("f")
	term.want(`FROZEN$`)
	term.press("\x1b")
	term.want(`filter: compare$`)
	term.resize(40, 5)
	term.want(`^  ▼SELF`)
	term.resize(120, 30)
	term.want(`q quit`)
	term.press("q")
	term.restored(0)
}

// TestSignalsRestoreTheTerminal ends the view from outside, and by Ctrl-C.
func TestSignalsRestoreTheTerminal(t *testing.T) {
	target := nodetest.Start(t, clitest.Node(t, programs...), nodetest.Options{Script: "purecpu.js"})
	for _, end := range []func(*terminal){
		func(term *terminal) { _ = term.cmd.Process.Signal(unix.SIGTERM) },
		func(term *terminal) { term.press("\x03") },
	} {
		term := inTerminal(t, nil, "live", "-p", strconv.Itoa(target.PID))
		term.want(`pureMain`)
		end(term)
		term.restored(0)
	}
}

// TestEndOfTheProcessIsNoted leaves the last view, without color as requested.
func TestEndOfTheProcessIsNoted(t *testing.T) {
	target := nodetest.Start(t, clitest.Node(t, programs...), nodetest.Options{Script: "purecpu.js"})
	term := inTerminal(t, []string{"NO_COLOR=1"}, "live", "-p", strconv.Itoa(target.PID))
	term.want(`pureMain`)
	if cells := coloredCells(term.screen); cells > 0 {
		t.Errorf("cells with color = %d, want 0", cells)
	}
	target.Stop()
	term.want(`^jsprof live: process \d+ has ended$`)
	term.restored(0)
	term.want(`[\d.]+%  pureMain purecpu.js`)
}

// TestLiveViewOfAContainer finds the only process with V8, and asks which if there are more.
func TestLiveViewOfAContainer(t *testing.T) {
	node := clitest.Node(t, programs...)
	first := nodetest.Start(t, node, nodetest.Options{Script: "purecpu.js"})
	term := inTerminal(t, nil, "live", "--container", nodetest.Contain(t, first.PID))
	term.want(fmt.Sprintf(`^node %d purecpu.js, `, first.PID))
	term.press("q")
	term.restored(0)
	second := nodetest.Start(t, node, nodetest.Options{Script: "purecpu.js"})
	id := nodetest.Contain(t, first.PID, second.PID)
	term = inTerminal(t, nil, "live", "--container", id[:12])
	term.want(`container ` + id[:12] + ` has 2 processes with V8: node \d+ purecpu.js, `)
	term.restored(1)
}

// coloredCells returns how many cells of a screen have a color.
func coloredCells(screen *vt.SafeEmulator) int {
	count := 0
	for y := range screen.Height() {
		for x := range screen.Width() {
			if cell := screen.CellAt(x, y); cell != nil && (cell.Style.Fg != nil || cell.Style.Bg != nil) {
				count++
			}
		}
	}
	return count
}

// TestLiveViewNeedsATerminal runs it without one, and in one that cannot do what it needs.
func TestLiveViewNeedsATerminal(t *testing.T) {
	pid := strconv.Itoa(os.Getpid())
	for _, args := range [][]string{{}, {"-p", pid}, {"-p", pid, "-F", "0"}, {"-p", pid, "--window", "10ms"}, {"-p", "1", "-p", pid}} {
		out, err := exec.Command("jsprof", slices.Concat([]string{"live"}, args)...).CombinedOutput()
		if err == nil || !strings.HasSuffix(string(out), " (jsprof live --help explains)\n") || strings.Count(string(out), "\n") != 1 {
			t.Errorf("%v: %v, %q, want one line", args, err, out)
		}
	}
	term := inTerminal(t, []string{"TERM=dumb"}, "live", "-p", pid)
	term.want(`cannot move its cursor: TERM=dumb`)
	term.restored(2)
}
