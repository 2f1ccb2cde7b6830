package event

import (
	"runtime"
	"testing"

	"github.com/cilium/ebpf/link"

	"ustack/tools/trace"
)

// A closer is a link that records that it was closed.
type closer struct {
	link.Link
	closed bool
}

func (c *closer) Close() error {
	c.closed = true
	return nil
}

func TestWhatIsFoundLateIsDetachedToo(t *testing.T) {
	const pid = 1
	probes := Probes{Table: trace.NewTable(trace.Maps{})}
	late := &closer{}
	searches := 0
	find := func(*trace.Table, int) ([]Site, error) {
		if searches++; searches > 1 { // Detach, which has begun, must wait for it
			p := probes.of[pid]
			go probes.Detach(pid)
			for probes.Has(pid) {
				runtime.Gosched()
			}
			p.links = append(p.links, late)
		}
		return nil, nil
	}
	if err := probes.Attach(pid, []Place{{Name: "late", Find: find}}); err != nil {
		t.Fatal(err)
	}
	p := probes.of[pid]
	probes.Late()
	if searches != 2 {
		t.Fatalf("%d searches, want 2", searches)
	}
	for closed := false; !closed; runtime.Gosched() {
		p.mutex.Lock()
		closed = p.closed
		p.mutex.Unlock()
	}
	if !late.closed {
		t.Error("a link that was made while the process was detached from is left")
	}
}
