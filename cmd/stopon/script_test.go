package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"ustack/cmd/internal/clitest"
	"ustack/symbolize/reader"
	"ustack/tools/stopon"
)

// programs are the kernel's names of what must not stay behind.
var programs = []string{
	"on_system_call", "on_system_call_end", "on_call_in_loop", "on_signal", "on_entry", "on_call", "on_return", "on_exit", "on_tick", "on_signal_sent", "on_throw",
	"on_uncaught", "on_owner_end",
}

func TestMain(m *testing.M) {
	reader.Serve()
	stopon.Supervise()
	testscript.Main(m, map[string]func(){"stopon": main})
}

// busy returns the path of a program that goes wrong again and again.
func busy(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", "busy.js"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestScripts runs testdata/*.txtar, in which BUSY is a program that goes wrong
// again and again, and LONG is more than a pattern may be. Their commands beyond
// those of every command:
//
//	contract FILE TRIGGER       each object in FILE is JSON as the manual page has it, of that trigger
//	numbers FILE N...           the matches in FILE, JSON, have these numbers
//	summary FILE N NAME=N...    the summary in FILE, JSON, is of so many matches, of these functions of the program
//	[!] stopped PID             the process, a child of ours, is stopped by a signal
func TestScripts(t *testing.T) {
	clitest.Scripts{
		Programs: programs,
		Env:      map[string]string{"BUSY": busy(t), "LONG": strings.Repeat("x", 128)},
		Commands: map[string]func(*testscript.TestScript, bool, []string){
			"contract": contract, "numbers": numbers, "stopped": stopped, "summary": summary,
		},
	}.Run(t)
}

// The JSON format as the manual page describes it, written down a second time
// on purpose: a field that is renamed breaks other people's programs.
type (
	hit struct {
		Time      string          `json:"time"`
		Number    uint64          `json:"number"`
		PID       int             `json:"pid"`
		TID       int             `json:"tid"`
		Comm      string          `json:"comm"`
		Thread    string          `json:"thread"`
		Trigger   string          `json:"trigger"`
		Event     string          `json:"event"`
		Syscall   string          `json:"syscall"`
		Function  string          `json:"function"`
		Signal    string          `json:"signal"`
		Result    *int64          `json:"result"`
		Errno     string          `json:"errno"`
		Duration  int64           `json:"duration_ns"`
		Path      string          `json:"path"`
		Written   string          `json:"written"`
		Command   []string        `json:"command"`
		Directory string          `json:"directory"`
		Address   string          `json:"address"`
		Local     string          `json:"local"`
		Peer      string          `json:"peer"`
		User      *clitest.Frame  `json:"user_frame"`
		Class     string          `json:"class"`
		Message   string          `json:"message"`
		Rejection bool            `json:"rejection"`
		Thrower   bool            `json:"thrower"`
		Raised    string          `json:"raised"`
		Stack     []clitest.Frame `json:"stack"`
		Arguments []struct {
			Name  string `json:"name"`
			Value int64  `json:"value"`
			Text  string `json:"text"`
		} `json:"arguments"`
		Core *struct {
			Path     string `json:"path"`
			Disk     int64  `json:"disk_bytes"`
			Resident uint64 `json:"resident_bytes"`
			Threads  int    `json:"threads"`
			Stopped  int64  `json:"stopped_ns"`
			Direct   *bool  `json:"direct"`
			Unread   *int   `json:"unread_pages"`
		} `json:"core"`
		Errors   []string          `json:"errors"`
		Failures map[string]uint64 `json:"failures"`
	}
)

func contract(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: contract FILE TRIGGER")
	}
	for _, h := range clitest.Decode[hit](ts, args[0]) {
		if h.Time == "" || h.PID == 0 || h.TID == 0 || h.Comm == "" || h.Event == "" || h.Trigger != args[1] || h.Stack == nil || h.Failures == nil {
			ts.Fatalf("a field is missing or wrong: %+v", h)
		}
		if c := h.Core; c != nil && (c.Disk == 0 || c.Resident == 0 || c.Threads == 0 || c.Stopped == 0 || c.Direct == nil || c.Unread == nil) {
			ts.Fatalf("core with a field missing: %+v", c)
		}
		if h.Trigger != "now" {
			checkEvent(ts, h)
		}
	}
}

// checkEvent checks what is there of all events that are waited for.
func checkEvent(ts *testscript.TestScript, h hit) {
	if h.Number == 0 || h.Thread == "" || len(h.Stack) == 0 || h.Result == nil {
		ts.Fatalf("a field is missing: %+v", h)
	}
	if h.Trigger == "syscall" && (h.Syscall != "close" || h.Errno != "EBADF" || *h.Result != -9 || h.Arguments[0].Value != 9999) {
		ts.Fatalf("system call = %+v, want close(9999) = -9", h)
	}
	named := slices.ContainsFunc(h.Stack, func(f clitest.Frame) bool {
		return f.Kind == "js" && f.Name != nil && *f.Name == "guilty" && f.File != ""
	})
	if !named && h.Trigger == "syscall" {
		ts.Fatalf("stack = %+v, want guilty on it", h.Stack)
	}
}

func numbers(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: numbers FILE N...")
	}
	var got []string
	for _, h := range clitest.Decode[hit](ts, args[0]) {
		got = append(got, strconv.FormatUint(h.Number, 10))
	}
	if diff := cmp.Diff(args[1:], got); diff != "" {
		ts.Fatalf("numbers (-want +got):\n%s", diff)
	}
}

// The summary's format, likewise.
type summaryLine struct {
	Summary struct {
		Matches    uint64  `json:"matches"`
		Limited    *uint64 `json:"limited"`
		Lost       *uint64 `json:"lost"`
		Unreported *uint64 `json:"unreported"`
		Triggers   []struct {
			Trigger string  `json:"trigger"`
			What    string  `json:"what"`
			Matches uint64  `json:"matches"`
			Limited *uint64 `json:"limited"`
			Lost    *uint64 `json:"lost"`
		} `json:"triggers"`
		Stacks []struct {
			Trigger string          `json:"trigger"`
			What    string          `json:"what"`
			Count   uint64          `json:"count"`
			First   string          `json:"first"`
			Last    string          `json:"last"`
			Timed   uint64          `json:"timed"`
			Total   int64           `json:"total_ns"`
			Min     int64           `json:"min_ns"`
			Max     int64           `json:"max_ns"`
			User    *clitest.Frame  `json:"user_frame"`
			Stack   []clitest.Frame `json:"stack"`
		} `json:"stacks"`
		Other    *uint64           `json:"other"`
		Failures map[string]uint64 `json:"failures"`
	} `json:"summary"`
}

func summary(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: summary FILE N NAME=N...")
	}
	lines := clitest.Decode[summaryLine](ts, args[0])
	if len(lines) != 1 {
		ts.Fatalf("%d lines, want one", len(lines))
	}
	s := lines[0].Summary
	if s.Limited == nil || s.Lost == nil || s.Unreported == nil || s.Triggers == nil || s.Stacks == nil || s.Other == nil || s.Failures == nil {
		ts.Fatalf("a field is missing: %+v", s)
	}
	var names []string
	counts := make(map[string]int)
	for _, g := range s.Stacks {
		if g.Trigger != "syscall" || g.What != "openat ENOENT" || g.First == "" || g.Last < g.First || g.User == nil ||
			g.Timed > 0 && (g.Timed != g.Count || g.Min <= 0 || g.Max < g.Min || g.Total < g.Max) {
			ts.Fatalf("a field is missing or wrong: %+v", g)
		}
		i := slices.IndexFunc(g.Stack, func(f clitest.Frame) bool { return f.Name != nil && (*f.Name == "often" || *f.Name == "rarely") })
		if i < 0 {
			ts.Fatalf("stack = %+v, want a function of the program on it", g.Stack)
		}
		name := *g.Stack[i].Name
		if counts[name] == 0 {
			names = append(names, name)
		}
		counts[name] += int(g.Count)
	}
	var got []string
	for _, name := range names {
		got = append(got, fmt.Sprintf("%s=%d", name, counts[name]))
	}
	if diff := cmp.Diff(args[2:], got, cmpopts.EquateEmpty()); diff != "" {
		ts.Fatalf("functions (-want +got):\n%s", diff)
	}
	if matches := strconv.FormatUint(s.Matches, 10); matches != args[1] {
		ts.Fatalf("matches = %s, want %s", matches, args[1])
	}
	for _, t := range s.Triggers {
		if t.Trigger != "syscall" || t.What != "openat" || t.Matches != s.Matches || t.Limited == nil || t.Lost == nil {
			ts.Fatalf("trigger = %+v, want %d of openat", t, s.Matches)
		}
	}
}

func stopped(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] stopped PID")
	}
	pid, err := strconv.Atoi(args[0])
	ts.Check(err)
	if !neg {
		ts.Check(awaitStopped(pid))
	}
	got, err := stateOf(pid)
	ts.Check(err)
	if (got == "T") == neg {
		ts.Fatalf("state of %d = %s, want it stopped: %v", pid, got, !neg)
	}
}

// awaitStopped waits until a child of ours has taken the signal that stops it,
// which it does once it has a CPU.
func awaitStopped(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// stateOf returns the letter of a process's state, as in proc(5).
func stateOf(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return fields[0], nil
}
