package stopon

import (
	"encoding/json"
	"time"

	"golang.org/x/sys/unix"

	"ustack/symbolize"
	"ustack/tools/event"
	"ustack/tools/trace"
)

// record is the form of a Hit that programs read.
type record struct {
	Time      time.Time         `json:"time"`
	Number    uint64            `json:"number,omitempty"`
	PID       int               `json:"pid"`
	Inside    int               `json:"namespace_pid,omitempty"`
	TID       int               `json:"tid,omitempty"`
	Comm      string            `json:"comm"`
	Thread    string            `json:"thread,omitempty"`
	Command   []string          `json:"command,omitempty"`
	Directory string            `json:"directory,omitempty"`
	Trigger   string            `json:"trigger"`
	Event     string            `json:"event"`
	Syscall   string            `json:"syscall,omitempty"`
	Function  string            `json:"function,omitempty"`
	Signal    string            `json:"signal,omitempty"`
	Arguments []event.Argument  `json:"arguments,omitempty"`
	Result    *int64            `json:"result,omitempty"`
	Errno     string            `json:"errno,omitempty"`
	Duration  int64             `json:"duration_ns,omitempty"`
	Path      string            `json:"path,omitempty"`
	Written   string            `json:"written,omitempty"`
	Address   string            `json:"address,omitempty"`
	Local     string            `json:"local,omitempty"`
	Peer      string            `json:"peer,omitempty"`
	Class     string            `json:"class,omitempty"`
	Message   string            `json:"message,omitempty"`
	Rejection bool              `json:"rejection,omitempty"`
	Thrower   bool              `json:"thrower,omitempty"`
	Raised    string            `json:"raised,omitempty"`
	User      *symbolize.Frame  `json:"user_frame,omitempty"`
	Stack     []symbolize.Frame `json:"stack"`
	Core      *coreJSON         `json:"core,omitempty"`
	Errors    []string          `json:"errors,omitempty"`
	Failures  trace.Failures    `json:"failures"` // by cause
}

type coreJSON struct {
	Path     string `json:"path"`
	Disk     int64  `json:"disk_bytes"`
	Resident uint64 `json:"resident_bytes"`
	Threads  int    `json:"threads"`
	Stopped  int64  `json:"stopped_ns"`
	Direct   bool   `json:"direct"`
	Unread   int    `json:"unread_pages"`
}

// MarshalJSON returns the hit as one object of the `--json` contract. The note
// in its core holds the same object, as far as it is known by then.
func (h *Hit) MarshalJSON() ([]byte, error) {
	r := record{
		Time: h.Time, Number: h.Number, PID: h.PID, Inside: h.Inside, TID: h.TID, Comm: h.Comm, Thread: h.Thread,
		Trigger: h.Trigger, Event: h.Event, Syscall: h.Syscall, Function: h.Function,
		Duration: h.Duration.Nanoseconds(), Path: h.Path, Written: h.Written,
		Class: h.Class, Message: h.Message, Rejection: h.Rejection, Thrower: h.Thrower,
		Signal: signalName(h.Signal), Raised: signalName(h.Raised), Stack: append([]symbolize.Frame{}, h.Frames...), User: h.UserFrame(),
		Failures: h.Failures,
	}
	r.Arguments = h.Arguments
	if r.Failures == nil {
		r.Failures = trace.Failures{}
	}
	r.Command, r.Directory, r.Address = h.Command, h.Directory, h.Address
	if h.Socket != nil {
		r.Local, r.Peer = h.Socket.Local, h.Socket.Peer
	}
	if h.Errno != 0 {
		r.Errno = event.ErrnoName(h.Errno)
	}
	if h.Syscall != "" || h.Trigger == "return" || h.Trigger == "exit" {
		r.Result = &h.Result
	}
	if c := h.Core; c != nil {
		r.Core = &coreJSON{c.Path, c.Disk, c.Resident, c.Threads, c.Stopped.Nanoseconds(), c.Direct, c.Unread}
	}
	for _, err := range h.Errors {
		r.Errors = append(r.Errors, err.Error())
	}
	return json.Marshal(&r)
}

func signalName(s unix.Signal) string {
	if s == 0 {
		return ""
	}
	return unix.SignalName(s)
}
