package nodetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Unharmed notes the state of the process pid that an observer must not change, and
// returns a function that checks it: no thread is traced or stopped, the process
// has no child, and signal masks and the flags of its mappings are as they were.
func Unharmed(t testing.TB, pid int) (check func()) {
	t.Helper()
	masks, flags := usualMasks(t, pid), mappingFlags(t, pid)
	return func() {
		t.Helper()
		for task, status := range tasks(t, pid) {
			if state := status["State"]; strings.ContainsAny(state[:1], "tTZ") || status["TracerPid"] != "0" {
				t.Errorf("thread %s is in state %s, traced by %s", task, state, status["TracerPid"])
			}
			// A child of a thread that ended is listed at another.
			if text, err := os.ReadFile(filepath.Join(task, "children")); err == nil && len(text) > 0 {
				t.Errorf("thread %s has children: %s", task, text)
			}
		}
		for task, before := range masks {
			checkMask(t, pid, task, before)
		}
		for mapping, now := range mappingFlags(t, pid) {
			if before, known := flags[mapping]; known && now != before {
				t.Errorf("flags of mapping %s: %s, want %s", mapping, now, before)
			}
		}
	}
}

// checkMask checks that a thread's signals are handled as before, if it still exists.
// libuv's handlers block all signals while they run, so it waits for a while.
func checkMask(t testing.TB, pid int, task, before string) {
	t.Helper()
	const limit = 10 * time.Second
	for deadline := time.Now().Add(limit); ; {
		now, exists := masksOf(tasks(t, pid))[task]
		if !exists || now == before {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("signals of thread %s: %s, want %s", task, now, before)
			return
		}
	}
}

// tasks returns the status files of the process's threads by their folders.
func tasks(t testing.TB, pid int) map[string]map[string]string {
	t.Helper()
	folders, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(folders) == 0 {
		t.Fatalf("process %d has ended (%v)", pid, err)
	}
	all := make(map[string]map[string]string)
	for _, folder := range folders {
		text, err := os.ReadFile(filepath.Join(folder, "status"))
		if err != nil {
			continue // the thread has ended
		}
		fields := make(map[string]string)
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(line, ":")
			fields[key] = strings.TrimSpace(value)
		}
		all[folder] = fields
	}
	return all
}

// masksOf returns how threads handle signals, by their folders.
func masksOf(tasks map[string]map[string]string) map[string]string {
	masks := make(map[string]string)
	for task, status := range tasks {
		masks[task] = fmt.Sprintf("blocked %s, ignored %s, caught %s", status["SigBlk"], status["SigIgn"], status["SigCgt"])
	}
	return masks
}

// usualMasks returns the signal masks once no thread blocks the C library's own signals, 32 and 33, as
// a thread does that starts, or starts another.
func usualMasks(t testing.TB, pid int) map[string]string {
	t.Helper()
	const own, limit = 3 << 31, 10 * time.Second
	for deadline := time.Now().Add(limit); ; {
		starts, all := "", tasks(t, pid)
		for task, status := range all {
			if blocked, err := strconv.ParseUint(status["SigBlk"], 16, 64); err != nil || blocked&own != 0 {
				starts = task
			}
		}
		if starts == "" {
			return masksOf(all)
		}
		if time.Now().After(deadline) {
			t.Fatalf("thread %s still blocks the C library's signals after %v", starts, limit)
		}
	}
}

// mappingFlags returns VmFlags by the line of maps.
func mappingFlags(t testing.TB, pid int) map[string]string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		t.Fatal(err)
	}
	flags := make(map[string]string)
	mapping := ""
	for line := range strings.Lines(string(text)) {
		key, rest, _ := strings.Cut(line, " ")
		switch {
		case key == "VmFlags:":
			flags[mapping] = rest
		case !strings.HasSuffix(key, ":"):
			mapping = line
		}
	}
	return flags
}

// AwaitTraced waits until the main thread of the process is stopped by a tracer. It
// returns false if tracer, a child of this process, ends first: a short stop may pass
// unseen on a busy machine.
func AwaitTraced(t testing.TB, pid, tracer int) bool {
	t.Helper()
	const limit = time.Minute
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		if _, state, _ := strings.Cut(string(text), ") "); strings.HasPrefix(state, "t") {
			return true
		}
		var ended unix.Siginfo
		if err := unix.Waitid(unix.P_PID, tracer, &ended, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err != nil {
			t.Fatal(err)
		}
		if ended.Signo != 0 {
			return false
		}
	}
	t.Fatalf("process %d is not stopped after %v", pid, limit)
	return false
}
