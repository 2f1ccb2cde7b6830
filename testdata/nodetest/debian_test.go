package nodetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDebiansNodeRunsAsItsOwnProcess(t *testing.T) {
	node := DebianNode(t)
	steps := []Step{
		{Addon: "napi.c", Call: "sleep", Micros: 100, Count: 7},
		{Addon: "rawuv.cc", Call: "sleep", Micros: 100, Count: 5},
		{Call: "fs.stat", Count: 3},
		{Call: "dns.lookup", Count: 2},
	}
	jobs := StartJobs(t, node, Plan{
		Addons: addonsFor(t, Node(t, DebianAddons), FramePointers),
		Steps:  steps,
		Stay:   true,
	})
	var ready struct{ PID int }
	jobs.Facts(&ready)
	if ready.PID != jobs.PID {
		t.Errorf("process = %d, want %d: the script becomes node", ready.PID, jobs.PID)
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", jobs.PID))
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Dir(filepath.Dir(node))
	for _, file := range []string{"libnode.so.108", "libuv.so.1"} {
		if !strings.Contains(string(maps), filepath.Join(root, "usr/lib/x86_64-linux-gnu", file)) {
			t.Errorf("%s is not the cache's", file)
		}
	}
	jobs.Begin()
	checkCounts(t, steps, jobs.Done())
}

func TestPackagesThatAreNotThereAreSaid(t *testing.T) {
	if err := download(t.Context(), t.TempDir(), []string{"no-such-package"}); err == nil || !strings.Contains(err.Error(), "no-such-package") {
		t.Errorf("error = %v, want one that names the package", err)
	}
}
