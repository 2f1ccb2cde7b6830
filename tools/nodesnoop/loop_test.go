package nodesnoop

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// TestUtilizationIsThatOfPerformance compares what is read from memory with what node
// itself says, while the process is stopped right after it has said it.
func TestUtilizationIsThatOfPerformance(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		target := nodetest.Start(t, node, nodetest.Options{Script: "idles.js"})
		s, err := open(t.Context(), Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Kinds: Kinds{Server: true}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Add(); err != nil {
			t.Fatal(err)
		}
		clock := s.targeted[target.PID].loop
		said := idled(t, target)
		s.loops()
		read := clock.last
		for range 3 {
			target.Signal(syscall.SIGCONT)
			time.Sleep(150 * time.Millisecond) // what the process does meanwhile is measured
			now := idled(t, target)
			loops := s.loops()
			idle := float64(clock.last.idle - read.idle)
			if got, want := clock.last.idle, now.Idle; math.Abs(float64(got-want)) > 1000 {
				t.Errorf("idle = %d ns, node says %d", got, want)
			}
			active := float64(now.Active - said.Active)
			want := active / (active + float64(now.Idle-said.Idle))
			if got := 1 - idle/(active+float64(now.Idle-said.Idle)); math.Abs(got-want) > 0.001 || got < 0.1 || got > 0.99 {
				t.Errorf("utilization = %v, node says %v", got, want)
			}
			// Of its own window, which ends a little later than node's.
			want = 1 - idle/float64(clock.last.at-read.at)
			if len(loops) != 1 || loops[0].PID != target.PID || math.Abs(loops[0].Utilization-want) > 1e-9 {
				t.Errorf("loops = %v, want %v of %d", loops, want, target.PID)
			}
			said, read = now, clock.last
		}
		target.Signal(syscall.SIGCONT)
	})
}

// idleTimes are what idles.js says, in ns.
type idleTimes struct{ Idle, Active int64 }

// idled has the process say its times and stop.
func idled(t *testing.T, target *nodetest.Target) (said idleTimes) {
	t.Helper()
	target.Signal(syscall.SIGUSR2)
	text, _ := strings.CutPrefix(target.Line(), "idled ")
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(waitLimit); ; {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", target.PID))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(stat), ") T ") {
			return said
		}
		if time.Now().After(deadline) {
			t.Fatal("the process does not stop")
		}
	}
}
