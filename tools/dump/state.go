package dump

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"ustack/tools/core"
)

// A State is what a thread was doing when it was stopped, as the kernel sees it.
type State struct {
	Stopped unix.Signal // the signal that had stopped the process before; 0 if none
	InCall  bool        // it was sleeping in a system call
	Syscall string      // its name; empty if it is not known
}

// String returns the state in words: "running", "sleeping in read", "blocked in futex" or
// "stopped by SIGSTOP".
func (s State) String() string {
	text := "running"
	switch {
	case s.InCall && s.Syscall == "":
		text = "sleeping in a system call"
	case s.InCall && strings.HasPrefix(s.Syscall, "futex"):
		text = "blocked in " + s.Syscall
	case s.InCall:
		text = "sleeping in " + s.Syscall
	}
	if s.Stopped == 0 {
		return text
	}
	return fmt.Sprintf("stopped by %s while %s", unix.SignalName(s.Stopped), text)
}

// MarshalJSON returns the state as an object: {"state":"sleeping","syscall":"read"}.
func (s State) MarshalJSON() ([]byte, error) {
	object := struct {
		State   string `json:"state"` // "running", "sleeping" or "stopped"
		Syscall string `json:"syscall,omitempty"`
		Signal  string `json:"signal,omitempty"`
	}{State: "running", Syscall: s.Syscall}
	if s.InCall {
		object.State = "sleeping"
	}
	if s.Stopped != 0 {
		object.State, object.Signal = "stopped", unix.SignalName(s.Stopped)
	}
	return json.Marshal(object)
}

// Words of struct user_regs_struct on x86-64: origRAX has the number of the system call.
const (
	rax     = 10
	origRAX = 15
)

// callOf returns the number of the system call that a thread is in, below 0 if it is in none,
// and its result.
func callOf(thread core.Thread) (number, result int64) {
	if len(thread.Call) >= 4 { // arm64
		return int64(int32(binary.LittleEndian.Uint32(thread.Call))), word(thread.General, 0) // x0
	}
	return word(thread.General, origRAX), word(thread.General, rax)
}

// word returns a word of a set of registers; -1 if it has fewer.
func word(set []byte, i int) int64 {
	if 8*i+8 > len(set) {
		return -1
	}
	return int64(binary.LittleEndian.Uint64(set[8*i:]))
}

// stateOf returns what a thread was doing. To be stopped, it was woken in its system call,
// which the kernel begins again or, of a few that it does not, ends with EINTR.
func (t *taker) stateOf(thread core.Thread) State {
	s := State{Stopped: thread.Signal}
	number, result := callOf(thread)
	if number < 0 || !interrupted(result) {
		return s
	}
	s.InCall = true
	if number == unix.SYS_RESTART_SYSCALL {
		s.Syscall = cmp.Or(t.waits[thread.TID], waitsIn(t.process.PID(), thread.TID))
		return s
	}
	s.Syscall = fmt.Sprintf("system call %d", number)
	if t.o.Syscall != nil {
		if name := t.o.Syscall(int(number)); name != "" {
			s.Syscall = name
		}
	}
	return s
}

// interrupted reports whether a system call's result says that it was woken: EINTR or one
// of the kernel's own ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND and
// ERESTART_RESTARTBLOCK.
func interrupted(result int64) bool {
	switch result {
	case -int64(unix.EINTR), -512, -513, -514, -516:
		return true
	}
	return false
}

// waiters say by the kernel's function in which a thread waits what it waits in, if it was
// woken before and the number of its system call is no longer known.
var waiters = []struct{ prefix, call string }{
	{"futex", "futex"},
	{"hrtimer_nanosleep", "clock_nanosleep"},
	{"do_nanosleep", "clock_nanosleep"},
	{"do_sys_poll", "poll"},
	{"poll_schedule", "poll"},
}

// waitsIn returns the system call that a thread sleeps in; empty if it is not known.
func waitsIn(pid, tid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/wchan", pid, tid))
	if err != nil {
		return ""
	}
	for _, w := range waiters {
		if strings.HasPrefix(string(text), w.prefix) {
			return w.call
		}
	}
	return ""
}
