package addonlat

import (
	"syscall"
	"testing"
	"time"

	"ustack/bpf"
	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// TestEndedProcessLeavesNoJobs kills a process that has more jobs in flight than the
// kernel has seats for: the others are kept elsewhere.
func TestEndedProcessLeavesNoJobs(t *testing.T) {
	const many = 10_000
	node := prepare(t)
	plan := nodetest.Plan{Addons: addons(t, node, nodetest.FramePointers), Steps: []nodetest.Step{flying("rawuv.cc")}}
	plan.Steps[0].Micros = 60e6
	plan.Steps[0].InFlight = many
	jobs := startJobs(t, node, plan)
	s, err := open(t.Context(), Options{Selection: trace.Selection{PIDs: []int{jobs.PID}}, Warn: func(err error) { t.Errorf("warning = %v, want none", err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := s.Add(); err != nil {
		t.Fatal(err)
	}
	jobs.Begin()
	for deadline := time.Now().Add(time.Minute); s.pools(s.begun)[0].Submitted < many; {
		if time.Now().After(deadline) {
			t.Fatalf("pools = %+v, want %d jobs submitted", s.pools(s.begun), many)
		}
	}
	seated, others := inFlight(t, s)
	if seated == 0 || others == 0 || seated+others != many {
		t.Errorf("in flight = %d in seats and %d others, want %d, some in each", seated, others, many)
	}
	jobs.Signal(syscall.SIGKILL)
	<-s.Gone()
	if seated, others := inFlight(t, s); seated+others > 0 {
		t.Errorf("in flight = %d in seats and %d others, want none", seated, others)
	}
}

// inFlight counts the jobs that the kernel keeps.
func inFlight(t *testing.T, s *session) (seated, others int) {
	t.Helper()
	var at uint32
	var seat bpf.AddonlatSeat
	seats := s.objects.Seats.Iterate()
	for seats.Next(&at, &seat) {
		if seat.Key.Work != 0 {
			seated++
		}
	}
	var key bpf.AddonlatJobKey
	var job bpf.AddonlatJob
	jobs := s.objects.Jobs.Iterate()
	for jobs.Next(&key, &job) {
		others++
	}
	if err := seats.Err(); err != nil {
		t.Fatal(err)
	}
	if err := jobs.Err(); err != nil {
		t.Fatal(err)
	}
	return seated, others
}
