package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"time"

	"ustack/tools/nodesnoop"
	"ustack/tools/printable"
)

// jsonEvent is an event as --json prints it. Durations are in nanoseconds.
type jsonEvent struct {
	Time    string `json:"time"` // of its end
	PID     int    `json:"pid"`
	Inside  int    `json:"namespace_pid,omitempty"` // if it is another
	Thread  int    `json:"thread"`
	Probe   string `json:"probe"`
	Begun   int64  `json:"begun_ns"` // by CLOCK_MONOTONIC, as process.hrtime
	Latency int64  `json:"latency_ns"`
	Which   string `json:"which,omitempty"`

	*jsonRequest
	*jsonOperation

	Stack []string `json:"stack,omitempty"`
}

type jsonOperation struct {
	Operation string `json:"operation"`
	On        string `json:"on,omitempty"`      // a path, a name or an address
	OnCut     bool   `json:"on_cut,omitempty"`  // there may be more of it
	Error     string `json:"error,omitempty"`   // as node names it
	Wait      *int64 `json:"wait_ns,omitempty"` // until a thread of libuv's pool began
	Run       *int64 `json:"run_ns,omitempty"`  // of that thread
}

type jsonRequest struct {
	Method    string `json:"method"`
	URL       string `json:"url"`
	URLBytes  int    `json:"url_bytes,omitempty"` // if url is cut
	Path      string `json:"path"`
	Route     string `json:"route"`
	Host      string `json:"host,omitempty"`
	Status    int    `json:"status"` // 0: there was no response
	Bytes     uint64 `json:"bytes"`
	TTFB      *int64 `json:"ttfb_ns"`
	GC        int64  `json:"gc_ns"`
	Busy      *int64 `json:"busy_ns"` // null: not known
	Encrypted bool   `json:"encrypted"`
	Address   string `json:"remote_address,omitempty"`
	Port      int    `json:"remote_port,omitempty"`
	Socket    string `json:"socket,omitempty"`
	Local     int    `json:"local_port,omitempty"`
	EndLost   bool   `json:"end_lost,omitempty"`
}

func printJSON(w io.Writer, e *nodesnoop.Event) error {
	object := jsonEvent{
		Time: e.Begun.Add(e.Latency).Format(time.RFC3339Nano), PID: e.PID, Inside: e.Inside, Thread: e.TID,
		Probe: e.Kind.String(), Begun: int64(e.Monotonic), Latency: int64(e.Latency), Which: e.Outcome.String(),
		Stack: functions(e.Frames),
	}
	switch {
	case e.Kind.IsRequest():
		object.jsonRequest = requestObject(e)
	case e.Kind == nodesnoop.IO:
		object.jsonOperation = operationObject(e)
		if e.Failure != "" {
			object.Which = "failed"
		}
	default:
		object.Which = e.Collection
	}
	text, err := json.Marshal(object)
	if err == nil {
		_, err = w.Write(append(printable.JSON(text), '\n'))
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

func operationObject(e *nodesnoop.Event) *jsonOperation {
	o := &jsonOperation{Operation: e.Method, On: e.URL, OnCut: e.URLBytes > len(e.URL), Error: e.Failure}
	if e.Run > 0 {
		wait, run := int64(e.Wait), int64(e.Run)
		o.Wait, o.Run = &wait, &run
	}
	return o
}

func requestObject(e *nodesnoop.Event) *jsonRequest {
	path := nodesnoop.Path(e.URL)
	r := &jsonRequest{
		Method: e.Method, URL: e.URL, Path: path, Route: nodesnoop.Route(path), Host: e.Host,
		Status: e.Status, Bytes: e.Bytes, GC: int64(e.GC), Encrypted: e.Encrypted,
		Port: e.Peer.Port, Socket: e.Peer.Path, Local: e.LocalPort, EndLost: e.EndLost,
	}
	if e.URLBytes > len(e.URL) {
		r.URLBytes = e.URLBytes
	}
	if e.Busy >= 0 {
		busy := int64(e.Busy)
		r.Busy = &busy
	}
	if e.Status != 0 {
		ttfb := int64(e.TTFB)
		r.TTFB = &ttfb
	}
	if e.Peer.Addr != (netip.Addr{}) {
		r.Address = e.Peer.Addr.String()
	}
	return r
}
