package stopon

import (
	"regexp"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/testdata/nodetest"
	"ustack/tools/event"
)

// TestStaticProbesAreTriggers waits for the probes of a provider that have a negative argument.
func TestStaticProbesAreTriggers(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	node := nodetest.Node(t, nodetest.Versions[len(nodetest.Versions)-1])
	target := nodetest.Start(t, node, nodetest.Options{Script: "provider.js", Args: []string{nodetest.Loggers(t, node)}})
	r := watchWarned(t, target, Options{
		USDTs:      []event.USDT{{Provider: "none", Name: "*"}, {Provider: "sh?p", Name: "*"}},
		Conditions: []event.Condition{{Of: 1, Comparison: event.Comparison{Is: bpf.TraceComparisonLESS}}},
	}, func(error) {}) // that the first is not there
	target.Signal(unix.SIGUSR2)
	if said, want := target.Line(), `done {"Calls":[1,1,1],"Counters":[1,1,1]}`; said != want {
		t.Errorf("the program said %s, want %s", said, want)
	}
	hits := r.end(1)
	if len(hits) != 1 {
		t.Fatalf("%d hits, want 1", len(hits))
	}
	h := hits[0]
	if want := `^shop:sold\(arg0="Äpfel", arg1=-7, arg2=0x[0-9a-f]+\)$`; h.Trigger != "usdt" || !regexp.MustCompile(want).MatchString(h.Event) {
		t.Errorf("%s: %s, want %s", h.Trigger, h.Event, want)
	}
	if !slices.Contains(names(h), "_fire") {
		t.Errorf("stack = %q, want the JavaScript that fires", names(h))
	}
}
