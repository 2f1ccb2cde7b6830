package nodetest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/symbolize/elfsym"
)

// TestProviderHasTheInterface runs what provider.js checks, on every version.
func TestProviderHasTheInterface(t *testing.T) {
	for _, version := range Versions {
		t.Run(version, func(t *testing.T) {
			node := Node(t, version)
			target := Start(t, node, Options{Script: "provider.js", Args: []string{Loggers(t, node)}})
			if _, err := os.Stat(probeFile(t, target)); err != nil {
				t.Error(err)
			}
		})
	}
}

// probeFile returns a path of the file in memory that has a target's probes.
func probeFile(t *testing.T, target *Target) string {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", target.PID))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name, _ := os.Readlink(file); strings.HasPrefix(name, "/memfd:usdt-shop") {
			return file
		}
	}
	t.Fatalf("process %d has no file of probes", target.PID)
	return ""
}

// TestProbesAreListedByOtherTools has gdb, readelf and bpftrace list a program's probes.
func TestProbesAreListedByOtherTools(t *testing.T) {
	Root(t)
	node := Node(t, Versions[2])
	target := Start(t, node, Options{Script: "provider.js", Args: []string{Loggers(t, node)}})
	file := probeFile(t, target)
	for _, command := range [][]string{
		{"gdb", "-nx", "-batch", "-ex", "info probes stap shop", file},
		{"readelf", "-nW", file},
		{"bpftrace", "-l", "usdt:" + file + ":shop:*"},
		{"bpftrace", "-p", fmt.Sprint(target.PID), "-l", "usdt:*:shop:*"},
	} {
		if _, err := exec.LookPath(command[0]); err != nil {
			MustRun(t, err.Error())
		}
		output, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
		for _, name := range []string{"sold", "many", "none"} {
			if err != nil || !slices.ContainsFunc(strings.Fields(string(output)), func(word string) bool {
				return word == name || strings.HasSuffix(word, "shop:"+name)
			}) {
				t.Errorf("%v lists no %s: %v\n%s", command, name, err, output)
			}
		}
	}
}

// TestNotesDescribeArguments reads the notes of a library of each machine.
func TestNotesDescribeArguments(t *testing.T) {
	node := Node(t, Versions[0])
	image := filepath.Join(t.TempDir(), "image")
	for arch, want := range map[string]string{
		"x64":   "-8@(%rdi) 8@8(%rdi) 8@16(%rdi)",
		"arm64": "-8@[x0] 8@[x0, 8] 8@[x0, 16]",
	} {
		script := fmt.Sprintf(`const { image } = require(%q);
			require('fs').writeFileSync(%q, image({ provider: 'p', probes: [{ name: 'a', types: [] }, { name: 'b\0c', types: ['int', 'char *', 'json'] }],
				arch: %q, page: 65536, identity: Buffer.alloc(20) }).bytes)`, filepath.Join(Loggers(t, node), "node_modules/dtrace-provider/elf.js"), image, arch)
		if output, err := exec.CommandContext(t.Context(), node, "-e", script).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		data, err := os.ReadFile(image)
		if err != nil {
			t.Fatal(err)
		}
		all, err := elfsym.USDTs(bytes.NewReader(data))
		if err != nil || len(all) != 2 {
			t.Fatalf("%s: probes = %+v, %v, want two", arch, all, err)
		}
		for i, wanted := range []elfsym.USDT{
			{Provider: "p", Name: "a", Offset: 65536, Semaphore: 2 * 65536},
			{Provider: "p", Name: "b", Offset: 65536 + 16, Semaphore: 2*65536 + 2, Arguments: want},
		} {
			if all[i] != wanted {
				t.Errorf("%s: probe %d = %+v, want %+v", arch, i, all[i], wanted)
			}
		}
	}
}
