package addonlat

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// TestFilesOfOnePathAreDistinguished measures processes whose programs and add-ons have the same paths
// and are other files: each is probed in its own, and its jobs have the names of that.
func TestFilesOfOnePathAreDistinguished(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	twins, _ := nodetest.Twins(t)
	var pids []int
	for _, w := range twins {
		pids = append(pids, w.PID)
	}
	for by, name := range map[By]func(*nodetest.Twin) string{Function: (*nodetest.Twin).Begin, Work: (*nodetest.Twin).Do} {
		want := make(map[int]string)
		for i := range twins {
			want[twins[i].PID] = "addon.node`" + name(&twins[i])
		}
		got := make(map[int]string)
		all, once := make(chan struct{}), new(sync.Once)
		m := begin(t, Options{
			Selection: trace.Selection{PIDs: pids}, By: by, Interval: 100 * time.Millisecond,
			Report: func(r *Report) error {
				for _, k := range r.Kinds {
					if got[k.PID] != "" && got[k.PID] != k.Key {
						t.Errorf("jobs of process %d are of %s and of %s", k.PID, got[k.PID], k.Key)
					}
					got[k.PID] = k.Key
				}
				if len(got) == len(twins) {
					once.Do(func() { close(all) })
				}
				return nil
			},
		})
		select {
		case <-all:
		case <-m.ended:
		case <-time.After(time.Minute):
		}
		m.end()
		m.silent()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("jobs by process (-want +got):\n%s", diff)
		}
	}
}
