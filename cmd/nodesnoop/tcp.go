package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"ustack/tools/printable"
	"ustack/tools/tcp"
)

// watchTCP follows TCP connections.
func (f *flags) watchTCP(cmd *cobra.Command) error {
	messages := f.targets.Messages(cmd)
	l := newFeed(cmd.OutOrStdout(), f.count)
	o := tcp.Options{
		Selection: f.targets.Selected(os.Stderr), Maps: f.maps.Options, Stacks: f.stacks,
		Interval: time.Duration(f.interval), Duration: time.Duration(f.duration),
		Stop: l.stop, Warn: messages.Warn, Tick: l.flush,
		Event: func(e tcp.Event) { l.add(func(w io.Writer) error { return f.writeConnection(w, &e) }) },
		Started: func() {
			f.rows.begin()
			messages.Started(f.duration, "Watching the TCP connections of %v.", &f.targets)
		},
	}
	counts, err := tcp.Run(cmd.Context(), o)
	if err := cmp.Or(err, l.close()); err != nil {
		return err
	}
	if l.shown == 0 {
		messages.Release()
		messages.Notef("nothing to show: %d sockets", counts.Sockets)
	}
	messages.Failures(counts.Failures)
	return nil
}

// writeConnection writes an event, in the form that was chosen.
func (f *flags) writeConnection(w io.Writer, e *tcp.Event) error {
	if f.json {
		return writeObject(w, connectionObject(e))
	}
	const form = "%-*s %7s %7s %-21s %-21s %7s %7s %-11s %s\n"
	width := f.rows.timeWidth()
	if !f.rows.headed {
		f.rows.headed = true
		if _, err := fmt.Fprintf(w, form, width, "TIME", "PID", "THREAD", "LOCAL", "PEER", "RECV-Q", "SEND-Q", "STATE", "WHAT"); err != nil {
			return err
		}
	}
	thread := "-"
	if e.TID != 0 {
		thread = fmt.Sprint(e.TID)
	}
	_, err := fmt.Fprintf(w, form, width, f.rows.time(e.Time), fmt.Sprint(e.PID), thread,
		printable.String(cmp.Or(e.Local, "-")), printable.String(cmp.Or(e.Peer, "-")),
		fmt.Sprint(e.ReceiveQueue), fmt.Sprint(e.SendQueue), e.State, happened(e))
	if err != nil {
		return err
	}
	return writeFrames(w, e.Frames)
}

// happened says in words what happened to a socket.
func happened(e *tcp.Event) string {
	switch e.Kind {
	case tcp.Found:
		return "open" + closedBefore(e)
	case tcp.Accepted:
		text := "accepted"
		if e.Waited > 0 {
			text += " after " + ms(e.Waited)
		}
		return text + closedBefore(e)
	case tcp.Retransmitted:
		return fmt.Sprintf("sent again: %d segments so far", e.Retransmitted)
	case tcp.Queues:
		return "queues"
	}
	text := "from " + e.Old.String()
	switch {
	case e.Old == tcp.Established && e.Errno == unix.ECONNRESET:
		text += ": the other side reset it"
	case e.Errno != 0:
		text += failed(e)
	case e.Old == tcp.Established && e.State == tcp.Close:
		text += ": this side reset it"
	case e.Old == tcp.Established && e.Closer == tcp.ThisSide:
		text += ": this side closes first"
	case e.Old == tcp.Established && e.Closer == tcp.OtherSide:
		text += ": the other side closes first"
	}
	return text
}

// closedBefore says in words who had closed a socket before it was first seen.
func closedBefore(e *tcp.Event) string {
	switch {
	case e.Errno != 0 && e.Closer == tcp.OtherSide:
		return ": the other side reset it"
	case e.Errno != 0:
		return failed(e)
	case e.Closer == tcp.ThisSide:
		return ": this side closed first"
	case e.Closer == tcp.OtherSide:
		return ": the other side closed first"
	}
	return ""
}

// failed says in words which error closed a connection.
func failed(e *tcp.Event) string { return fmt.Sprintf(": %s (%v)", e.ErrnoName(), e.Errno) }

// jsonConnection is what happened to a TCP socket as --json prints it.
type jsonConnection struct {
	Time          string   `json:"time"`
	PID           int      `json:"pid"`
	Inside        int      `json:"namespace_pid,omitempty"` // if it is another
	Thread        int      `json:"thread,omitempty"`        // whose call did it
	Event         string   `json:"event"`
	Socket        uint64   `json:"socket"`
	Local         string   `json:"local,omitempty"`
	Peer          string   `json:"peer,omitempty"`
	State         string   `json:"state"`
	From          string   `json:"from,omitempty"`
	ReceiveQueue  uint32   `json:"receive_queue"`
	SendQueue     uint32   `json:"send_queue"`
	Retransmitted uint32   `json:"retransmitted"`
	ClosedFirst   string   `json:"closed_first,omitempty"`
	Errno         string   `json:"errno,omitempty"`
	Waited        *int64   `json:"accept_queue_ns,omitempty"`
	Stack         []string `json:"stack,omitempty"`
}

func connectionObject(e *tcp.Event) *jsonConnection {
	o := &jsonConnection{
		Time: e.Time.Format(time.RFC3339Nano), PID: e.PID, Inside: e.Inside, Thread: e.TID, Event: e.Kind.String(), Socket: e.Socket,
		Local: e.Local, Peer: e.Peer, State: e.State.String(), ReceiveQueue: e.ReceiveQueue, SendQueue: e.SendQueue,
		Retransmitted: e.Retransmitted, ClosedFirst: e.Closer.String(), Errno: e.ErrnoName(), Stack: functions(e.Frames),
	}
	if e.Kind == tcp.Changed {
		o.From = e.Old.String()
	}
	if e.Waited > 0 {
		waited := int64(e.Waited)
		o.Waited = &waited
	}
	return o
}
