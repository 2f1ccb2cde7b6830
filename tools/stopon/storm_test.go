package stopon

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
)

// TestStormIsReportedWhole: whatever the pace of whoever reads, all matches that
// the kernel had room for are reported, once and in order, and the others are
// counted. The reader here takes nothing before the program has ended.
func TestStormIsReportedWhole(t *testing.T) {
	nodetest.Root(t)
	for _, test := range []struct {
		events int
		lossy  bool // the kernel has no room for so many
	}{{1009, false}, {20011, true}} {
		t.Run(fmt.Sprint(test.events), func(t *testing.T) {
			target := nodetest.Start(t, nodetest.Node(t, "18.20.8"), nodetest.Options{
				Script: "trouble.js", Args: []string{"storm", fmt.Sprint(test.events)},
			})
			ended := make(chan struct{})
			r := watch(t, target, Options{
				Syscalls: []string{"openat"}, Path: "/none/storm.txt",
				Report: func(*Hit) error {
					<-ended
					return nil
				},
			})
			perform(t, target)
			target.Wait()
			close(ended)
			<-r.done
			if r.err != nil {
				t.Fatal(r.err)
			}
			lost := int(r.result.Lost)
			if got := len(r.hits) + lost; got != test.events || int(r.result.Matches) != test.events {
				t.Errorf("hits = %d, lost = %d, matches = %d, want %d together", len(r.hits), lost, r.result.Matches, test.events)
			}
			if (lost > 0) != test.lossy {
				t.Errorf("lost = %d, want some: %v", lost, test.lossy)
			}
			last := uint64(0)
			for _, h := range r.hits {
				if h.Number <= last {
					t.Fatalf("match %d comes after %d", h.Number, last)
				}
				last = h.Number
			}
		})
	}
}

// TestWhatIsNotReportedIsCounted ends a run whose reader has taken one match.
func TestWhatIsNotReportedIsCounted(t *testing.T) {
	nodetest.Root(t)
	const events = 1009
	target := nodetest.Start(t, nodetest.Node(t, "24.21.0"), nodetest.Options{
		Script: "trouble.js", Args: []string{"storm", fmt.Sprint(events)},
	})
	over := make(chan struct{})
	r := watch(t, target, Options{
		Syscalls: []string{"openat"}, Errnos: []unix.Errno{unix.ENOENT}, Path: "/none/storm.txt",
		Report: func(*Hit) error {
			<-over
			return nil
		},
	})
	perform(t, target)
	target.Wait()
	r.cancel()
	close(over)
	<-r.done
	if r.err != nil {
		t.Fatal(r.err)
	}
	if got := r.result.Acted + r.result.Unreported + r.result.Lost; got != events || int(r.result.Acted) != len(r.hits) {
		t.Errorf("result = %+v with %d hits, want %d matches", r.result, len(r.hits), events)
	}
}
