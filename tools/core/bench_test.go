package core

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/benchtable"
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

// BenchmarkPause measures for how long a process is held up, as its own timer of
// 1 ms sees it: the medians of our way and of gdb's gcore, in one run, and how many
// times longer gcore's is. Under USTACK_BENCH the heap has 1 GB and 4 GB, too.
func BenchmarkPause(b *testing.B) {
	nodetest.Root(b)
	sizes := []string{"200"}
	if os.Getenv("USTACK_BENCH") != "" {
		sizes = append(sizes, "1000", "4000")
	}
	table := benchtable.New("How long a core holds its process up", pauseMethod, "heap", "by", "held for, ms", "times shorter")
	for _, size := range sizes {
		b.Run(size+"MB", func(b *testing.B) {
			h := startHeap(b, "20.20.2", size)
			h.gap(b)
			var ours, theirs []float64
			for b.Loop() {
				ours = append(ours, pause(b, h, func(path string) error {
					_, err := Write(b.Context(), h.PID, path, Options{})
					return err
				}))
				if len(theirs) < gcores {
					theirs = append(theirs, pause(b, h, func(path string) error {
						return exec.Command("gdb", "-nx", "-batch", "-p", strconv.Itoa(h.PID), "-ex", "gcore "+path).Run()
					}))
				}
			}
			b.ReportMetric(median(ours), "ms-held")
			b.ReportMetric(median(theirs), "ms-held-by-gcore")
			b.ReportMetric(median(theirs)/median(ours), "times-shorter")
			table.Row(size+" MB", "gdb's gcore", fmt.Sprintf("%.0f", median(theirs)), "")
			table.Row(size+" MB", "ours", fmt.Sprintf("%.0f", median(ours)), fmt.Sprintf("%.0f", median(theirs)/median(ours)))
			h.checkRunsOn(b)
		})
	}
	table.Print(b)
}

const pauseMethod = `The process has a timer of 1 ms, and reports the longest gap between two of its calls while a
core is taken.`

// gcores is how many cores gdb takes of a process; it takes its time.
const gcores = 3

// pause returns for how many milliseconds taking a core holds the process up.
func pause(b *testing.B, h heap, take func(path string) error) float64 {
	path := filepath.Join(b.TempDir(), "core")
	if err := take(path); err != nil {
		b.Fatal(err)
	}
	gap := h.gap(b)
	if err := os.Remove(path); err != nil {
		b.Fatal(err)
	}
	return gap
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
