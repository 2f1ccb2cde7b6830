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

func TestFailuresAreThoseThatHaveOccurred(t *testing.T) {
	nodetest.Root(t)
	spec, err := bpf.LoadJsprof()
	if err != nil {
		t.Fatal(err)
	}
	spec.Programs = nil
	variables, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer variables.Close()
	counters := variables.Variables["failures"]
	set := [bpf.TraceFailureFAILURES]uint64{bpf.TraceFailureFAILURE_NAME: 3, bpf.TraceFailureFAILURE_TOO_DEEP: 1}
	if err := counters.Set(set); err != nil {
		t.Fatal(err)
	}
	got, err := readFailures(counters)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Failures{"name": 3, "too_deep": 1}, got); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}
