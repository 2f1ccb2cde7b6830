package core

import (
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
)

// gap returns the longest gap of the process's timer since the last time, in
// milliseconds.
func (h heap) gap(t testing.TB) float64 {
	t.Helper()
	h.Signal(syscall.SIGWINCH)
	var facts struct{ Milliseconds float64 }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(h.Line(), "gap ")), &facts); err != nil {
		t.Fatal(err)
	}
	return facts.Milliseconds
}

// BenchmarkPause measures for how long a process is held up, as its own timer
// of 1 ms sees it: the median. Beside our ways is gdb's. Under USTACK_BENCH the
// heap is 1 GB, too.
func BenchmarkPause(b *testing.B) {
	nodetest.Root(b)
	sizes := []string{"200"}
	if os.Getenv("USTACK_BENCH") != "" {
		sizes = append(sizes, "1000")
	}
	for _, size := range sizes {
		for _, way := range ways {
			b.Run(way.name+"/"+size+"MB", func(b *testing.B) {
				measurePause(b, size, func(pid int, path string) error {
					_, err := Write(b.Context(), pid, path, Options{Way: way.Way})
					return err
				})
			})
		}
		b.Run("gcore/"+size+"MB", func(b *testing.B) {
			measurePause(b, size, func(pid int, path string) error {
				return exec.Command("gdb", "-nx", "-batch", "-p", strconv.Itoa(pid), "-ex", "gcore "+path).Run()
			})
		})
	}
}

func measurePause(b *testing.B, size string, take func(pid int, path string) error) {
	h := startHeap(b, "20.20.2", size)
	path := filepath.Join(b.TempDir(), "core")
	var gaps []float64
	h.gap(b)
	for b.Loop() {
		if err := take(h.PID, path); err != nil {
			b.Fatal(err)
		}
		gaps = append(gaps, h.gap(b))
		if err := os.Remove(path); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(gaps)
	b.ReportMetric(gaps[len(gaps)/2], "ms-held")
	h.checkRunsOn(b)
}
