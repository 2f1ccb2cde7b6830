package core

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
)

// probeReturn has the kernel trace each return of a function of a program until the
// test ends.
func probeReturn(t *testing.T, program, function string) {
	t.Helper()
	number := func(file, prefix string) uint64 {
		text, err := os.ReadFile("/sys/bus/event_source/devices/uprobe/" + file)
		if err != nil {
			nodetest.MustRun(t, fmt.Sprintf("no uprobes: %v", err))
		}
		n, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(string(text)), prefix), 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	path := append([]byte(program), 0)
	fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{
		Type: uint32(number("type", "")), Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Config: 1 << number("format/retprobe", "config:"),
		Ext1:   uint64(uintptr(unsafe.Pointer(&path[0]))), Ext2: fileOffset(t, program, function),
	}, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
}

// fileOffset returns where a function is in its file.
func fileOffset(t *testing.T, path, function string) uint64 {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Name == function {
			section := f.Sections[s.Section]
			return s.Value - section.Addr + section.Offset
		}
	}
	t.Fatalf("%s has no function %s", path, function)
	return 0
}

// TestCoreAfterAReturnProbe takes cores of a process in which a function's returns
// were traced: that leaves the mapping [uprobes], which nobody may read.
func TestCoreAfterAReturnProbe(t *testing.T) {
	p := startTracee(t, "storm")
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.pid()))
	if err != nil {
		t.Fatal(err)
	}
	probeReturn(t, program, "short_lived")
	var probes Region
	for deadline := time.Now().Add(patience); probes.Start == 0; {
		for _, m := range mappingsOf(t, p.pid()) {
			if m.Path == "[uprobes]" {
				probes = Region{Start: m.Start, End: m.End}
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the mapping [uprobes] does not come")
		}
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			result, err := Write(t.Context(), p.pid(), filepath.Join(t.TempDir(), "core"), Options{direct: way.direct, MaxStop: 60e9, Full: true})
			if err != nil || result.Unread > 0 {
				t.Fatalf("Write = %+v, %v, want nothing unread", result, err)
			}
			f := open(t, result.Path)
			for _, r := range f.Regions() {
				if r.Start == probes.Start && r.Held > 0 {
					t.Errorf("%d bytes of [uprobes] are in the core, want none", r.Held)
				}
			}
			out := runTool(t, "gdb", "-nx", "-batch", "-ex", "info threads", program, result.Path)
			for _, thread := range f.Threads() {
				if !strings.Contains(out, fmt.Sprintf("(LWP %d)", thread.TID)) {
					t.Errorf("gdb finds no thread %d:\n%s", thread.TID, out)
				}
			}
		})
	}
	if got := p.end(); got != "done\n" {
		t.Errorf("program says %q", got)
	}
}
