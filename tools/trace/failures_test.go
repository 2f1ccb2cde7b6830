package trace

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"ustack/bpf"
	"ustack/testdata/nodetest"
)

func TestEveryFailureHasAWordOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for cause, word := range causes {
		if word == "" || seen[word] {
			t.Errorf("cause %d has the word %q", cause, word)
		}
		seen[word] = true
	}
}

func TestFailuresAreSummedOverCPUs(t *testing.T) {
	nodetest.Root(t)
	counters, err := ebpf.NewMap(&ebpf.MapSpec{
		Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: uint32(bpf.TraceFailureFAILURES),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer counters.Close()
	perCPU := make([]uint64, ebpf.MustPossibleCPU())
	for i := range perCPU {
		perCPU[i] = uint64(i + 1)
	}
	if err := counters.Put(uint32(bpf.TraceFailureFAILURE_NAME), perCPU); err != nil {
		t.Fatal(err)
	}
	got, err := ReadFailures(counters)
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(len(perCPU))
	if diff := cmp.Diff(Failures{"name": n * (n + 1) / 2}, got); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	counters.Close()
	if _, err := ReadFailures(counters); err == nil {
		t.Error("a closed map is no error")
	}
}
