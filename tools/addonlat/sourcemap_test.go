package addonlat

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ustack/testdata/nodetest"
)

// TestCallersAreShownAsTheyWereWritten measures a minified program whose one function has
// libuv's pool work. Several reports are made: maps are found at the first.
func TestCallersAreShownAsTheyWereWritten(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	folder := nodetest.SourceMaps(t)
	target := nodetest.Start(t, nodetest.Node(t, anyVersion), nodetest.Options{
		Flags: nodetest.NoInlining(anyVersion), Script: filepath.Join(folder, "esbuild", "busy.js"), Args: []string{"pool"},
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	source := filepath.Join(folder, "src", "busy.ts")
	want := fmt.Sprintf("fillThePool %s:%d:", source, nodetest.LineOf(t, source, "function fillThePool"))
	o := Options{By: JS, Builtin: true, Interval: time.Second, Warn: func(err error) { t.Errorf("warning: %v", err) }}
	o.PIDs = []int{target.PID}
	var got []string
	reports := 0
	o.Report = func(r *Report) error {
		if len(r.Kinds) == 0 {
			return nil
		}
		for _, k := range r.Kinds {
			got = append(got, k.Key)
			if !strings.HasPrefix(k.Key, want) {
				t.Errorf("key = %q, want it to begin with %q", k.Key, want)
			}
		}
		if reports++; reports == 3 {
			cancel()
		}
		return nil
	}
	if _, err := Run(ctx, o); err != nil || reports < 3 {
		t.Errorf("%d reports of %v, %v, want 3", reports, got, err)
	}
}
