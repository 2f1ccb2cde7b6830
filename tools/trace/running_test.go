package trace

import (
	"errors"
	"os"
	"slices"
	"testing"

	"ustack/testdata/nodetest"
	"ustack/tools/containers"
)

// TestRunningProcessesAreThoseWithV8 has a container with and one without such processes.
func TestRunningProcessesAreThoseWithV8(t *testing.T) {
	nodetest.Root(t)
	node := nodetest.Node(t, "22.23.3")
	var pids []int
	for range 2 {
		pids = append(pids, nodetest.Start(t, node, nodetest.Options{Script: "nested.js", Args: []string{"sort"}}).PID)
	}
	slices.Sort(pids)
	full, empty := nodetest.Contain(t, pids...), nodetest.Contain(t)
	for _, tt := range []struct {
		s    Selection
		want []int
		err  error
	}{
		{s: Selection{Container: full}, want: pids},
		{s: Selection{Container: full[:12]}, want: pids},
		{s: Selection{Container: empty}, err: ErrNotFound},
		{s: Selection{Container: "nonesuch"}, err: containers.ErrNone},
		{s: Selection{PIDs: []int{os.Getpid()}}, want: []int{os.Getpid()}}, // as they are named
		{s: Selection{PIDs: pids, Container: full}, err: errSelections},
		{err: ErrNoSelection},
	} {
		got, err := tt.s.Running()
		if !slices.Equal(got, tt.want) || !errors.Is(err, tt.err) {
			t.Errorf("%+v: %v, %v, want %v, %v", tt.s, got, err, tt.want, tt.err)
		}
	}
}
