package nodetest

import (
	"debug/elf"
	"errors"
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
	Root(t)
	err := download(t.Context(), t.TempDir(), Debians[0], "no-such-package")
	if err == nil || !strings.Contains(err.Error(), "no-such-package") {
		t.Errorf("error = %v, want one that names the package", err)
	}
}

func TestKernelIsFoundInPackages(t *testing.T) {
	for file, want := range map[string]string{
		"boot/vmlinuz-6.1.0-50-cloud-amd64":                "vmlinuz-6.1.0-50-cloud-amd64",
		"usr/lib/modules/7.2.13+deb14-cloud-amd64/vmlinuz": "vmlinuz-7.2.13+deb14-cloud-amd64",
		"boot/config-6.1.0-50-cloud-amd64":                 "",
	} {
		dir := t.TempDir()
		file = filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
		path, name, err := kernelImage(dir)
		if name != want || (err == nil) != (want != "") || err == nil && path != file {
			t.Errorf("image of %s = %q, %q, %v, want %q", file, path, name, err, want)
		}
	}
}

// TestStrippedBuildsHaveNoSymbols but run, each of the version that it says.
func TestStrippedBuildsHaveNoSymbols(t *testing.T) {
	builds := StrippedFew
	if os.Getenv("USTACK_MATRIX") == "1" {
		builds = Stripped
	}
	for _, build := range builds {
		t.Run(build.Name, func(t *testing.T) {
			node, version := build.Node(t)
			target := Start(t, node, Options{Script: "ticks.js"})
			if Major(version) < 16 {
				t.Errorf("version = %s, want 16 or newer", version)
			}
			exe, err := elf.Open(fmt.Sprintf("/proc/%d/exe", target.PID))
			if err != nil {
				t.Fatal(err)
			}
			defer exe.Close()
			if s := exe.Section(".symtab"); s != nil {
				t.Errorf("%s has %d bytes of symbols", node, s.Size)
			}
		})
	}
}
