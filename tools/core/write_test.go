package core

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/process"
	"ustack/symbolize/space"
	"ustack/testdata/nodetest"
)

// ways are the ways to take a core, by name.
var ways = []struct {
	name   string
	direct bool
}{{"copied", false}, {"direct", true}}

// Where struct user_regs_struct, or user_pt_regs on arm64, has them, in words.
var (
	wordPC = map[string]int{"amd64": 16, "arm64": 32}[runtime.GOARCH]
	wordSP = map[string]int{"amd64": 19, "arm64": 31}[runtime.GOARCH]
)

// floatSizes are the bytes of the floating-point registers, and the least of all that XSAVE
// keeps.
var floatSizes = map[string][2]int{"amd64": {512, 576}, "arm64": {528, 0}}[runtime.GOARCH]

func word(registers []byte, n int) uint64 { return binary.LittleEndian.Uint64(registers[n*8:]) }

// TestCoreIsTheProcess takes a core of a process that is stopped, so that all
// that is in it can be compared.
func TestCoreIsTheProcess(t *testing.T) {
	nodetest.Root(t)
	for _, version := range nodetest.Versions {
		for _, way := range ways {
			t.Run(version+"/"+way.name, func(t *testing.T) {
				h := startHeap(t, version, "20")
				h.freeze(t)
				dir := t.TempDir()
				tids := h.tids(t)
				about := tids[len(tids)-1]
				result, err := Write(t.Context(), h.PID, filepath.Join(dir, "core"), Options{
					direct: way.direct, Thread: about, Note: []byte(`{"event":"test"}`),
				})
				if err != nil {
					t.Fatal(err)
				}
				h.awaitStopped(t)
				checkOnly(t, dir, "core")
				checkResult(t, h, result)
				f := open(t, result.Path)
				checkThreads(t, h, f, about)
				checkMemory(t, h, f)
				checkFacts(t, h, f)
				h.Signal(syscall.SIGCONT)
				h.checkRunsOn(t)
			})
		}
	}
}

// checkResult compares the result with the file and with what the kernel says.
func checkResult(t *testing.T, h heap, got *Result) {
	t.Helper()
	var stat syscall.Stat_t
	if err := syscall.Stat(got.Path, &stat); err != nil {
		t.Fatal(err)
	}
	if stat.Mode&0o777 != 0o600 || int(stat.Uid) != os.Geteuid() {
		t.Errorf("mode %o, user %d, want 600, %d", stat.Mode&0o777, stat.Uid, os.Geteuid())
	}
	const headers = 1 << 20 // and what the file system may add later
	if disk := stat.Blocks * 512; got.Disk < disk-headers || got.Disk > disk+headers {
		t.Errorf("Disk = %d, want %d", got.Disk, disk)
	}
	if limit := int64(got.Resident+got.Resident/10) + headers; got.Disk > limit {
		t.Errorf("disk = %d, want at most %d for %d of memory", got.Disk, limit, got.Resident)
	}
	kib, err := strconv.Atoi(strings.TrimSuffix(h.status(t, "RssAnon:"), " kB"))
	if anonymous := uint64(kib) << 10; err != nil || got.Resident < anonymous || got.Resident > anonymous+4<<20 {
		t.Errorf("Resident = %d, %v, want %d and some pages of files", got.Resident, err, anonymous)
	}
	if got.Threads != len(h.tids(t)) || got.Unread != 0 || got.Stopped <= 0 {
		t.Errorf("%+v, want %d threads, nothing unread, a time", got, len(h.tids(t)))
	}
}

// checkThreads compares threads and registers.
func checkThreads(t *testing.T, h heap, f *File, first int) {
	t.Helper()
	var got []int
	for _, thread := range f.Threads() {
		got = append(got, thread.TID)
		sp, pc := h.registers(t, thread.TID)
		if word(thread.General, wordPC) != pc || word(thread.General, wordSP) != sp {
			t.Errorf("thread %d: pc %#x, sp %#x, want %#x, %#x", thread.TID,
				word(thread.General, wordPC), word(thread.General, wordSP), pc, sp)
		}
		if len(thread.Float) != floatSizes[0] || len(thread.XState) < floatSizes[1] {
			t.Errorf("thread %d: %d and %d bytes of registers, want %d", thread.TID, len(thread.Float), len(thread.XState), floatSizes)
		}
		// With the scalable matrix extension, a thread has a second pointer.
		if n := len(thread.TLS); runtime.GOARCH == "arm64" && n != 8 && n != 16 {
			t.Errorf("thread %d: %d bytes of thread pointers, want 8 or 16", thread.TID, n)
		}
	}
	if len(got) == 0 || got[0] != first {
		t.Errorf("threads = %v, want %d first", got, first)
	}
	slices.Sort(got)
	if diff := cmp.Diff(h.tids(t), got); diff != "" {
		t.Errorf("threads (-want +got):\n%s", diff)
	}
}

// checkMemory compares random stretches of all mappings, and all of the stacks.
func checkMemory(t *testing.T, h heap, f *File) {
	t.Helper()
	memory, err := os.Open(h.proc("mem"))
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	compared, leftOut := 0, 0
	compare := func(m process.Mapping, at uint64, size int) {
		want, got := make([]byte, size), make([]byte, size)
		if _, err := memory.ReadAt(want, int64(at)); err != nil {
			return // a hole of a file, or a device
		}
		_, err := f.ReadAt(got, at)
		switch {
		case errors.Is(err, space.ErrLeftOut) && m.File() && (!m.Perms.Write() || m.Perms.Shared()):
			leftOut++
		case err != nil || !bytes.Equal(got, want):
			t.Errorf("%d bytes at %#x of %x-%x %v %s differ: %v", size, at, m.Start, m.End, m.Perms, m.Path, err)
		default:
			compared++
		}
	}
	const size = 1 << 12
	for _, m := range mappingsOf(t, h.PID) {
		if m.Start >= kernelHalf || strings.HasPrefix(m.Path, "[vvar") {
			continue
		}
		for range 10 {
			compare(m, m.Start+rand.Uint64N(m.End-m.Start-size+1), size)
		}
	}
	for _, thread := range f.Threads() {
		sp := word(thread.General, wordSP)
		compare(process.Mapping{}, sp, 1<<10)
	}
	if compared < 1000 || leftOut < 10 {
		t.Errorf("compared %d stretches, left out %d, want 1000 and 10 or more", compared, leftOut)
	}
}

func mappingsOf(t *testing.T, pid int) []process.Mapping {
	t.Helper()
	p, err := process.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	all, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// checkFacts compares what else the core says.
func checkFacts(t *testing.T, h heap, f *File) {
	t.Helper()
	if info := f.Info(); info.PID != h.PID || info.Parent != os.Getpid() || !strings.Contains(info.Args, "bin/node ") {
		t.Errorf("info = %+v, want of %d, started by %d", info, h.PID, os.Getpid())
	}
	if got, want := string(f.Note()), `{"event":"test"}`; got != want {
		t.Errorf("note = %q, want %q", got, want)
	}
	auxv, err := os.ReadFile(h.proc("auxv"))
	if err != nil || len(f.Auxv()) == 0 || !slices.Equal(f.Auxv(), parseAuxv(auxv)) {
		t.Errorf("auxv = %v, %v, want %v", f.Auxv(), err, parseAuxv(auxv))
	}
	var want []space.Mapping
	for _, m := range mappingsOf(t, h.PID) {
		if m.File() {
			want = append(want, space.Mapping{Start: m.Start, End: m.End, Offset: m.Offset, Path: m.Path})
		}
	}
	if diff := cmp.Diff(want, f.Mappings()); diff != "" {
		t.Errorf("mappings (-want +got):\n%s", diff)
	}
}

// TestOtherToolsReadCores asks gdb and readelf what is in a core.
func TestOtherToolsReadCores(t *testing.T) {
	nodetest.Root(t)
	const version = "20.20.2"
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			h := startHeap(t, version, "20")
			h.freeze(t)
			path := filepath.Join(t.TempDir(), "core")
			if _, err := Write(t.Context(), h.PID, path, Options{direct: way.direct, MaxStop: 60e9}); err != nil {
				t.Fatal(err)
			}
			out := runTool(t, "gdb", "-nx", "-batch", "-ex", "thread apply all -q p/x $pc",
				"-ex", "info threads", "-ex", "info proc mappings", "-ex", "x/i main",
				nodetest.Node(t, version), path)
			for _, tid := range h.tids(t) {
				if _, pc := h.registers(t, tid); !strings.Contains(out, fmt.Sprintf("= %#x\n", pc)) {
					t.Errorf("gdb finds no thread at %#x:\n%s", pc, out)
				}
				if !strings.Contains(out, fmt.Sprintf("LWP %d", tid)) {
					t.Errorf("gdb finds no thread %d:\n%s", tid, out)
				}
			}
			for _, m := range mappingsOf(t, h.PID) {
				row := fmt.Sprintf(`%#x +%#x +%#x +%#x +%s\n`, m.Start, m.End, m.End-m.Start, m.Offset, regexp.QuoteMeta(m.Path))
				if m.File() && !regexp.MustCompile(row).MatchString(out) {
					t.Errorf("gdb finds no mapping %x-%x %s:\n%s", m.Start, m.End, m.Path, out)
				}
			}
			if !strings.Contains(out, "<main>:\tjmp ") {
				t.Errorf("gdb finds no code in the file:\n%s", out)
			}
			out = runTool(t, "readelf", "-W", "-n", "-l", path)
			if strings.Contains(strings.ToLower(out), "warning") || strings.Contains(out, "Error") {
				t.Errorf("readelf is not content:\n%s", out)
			}
			if got, want := strings.Count(out, "NT_PRSTATUS"), len(h.tids(t)); got != want {
				t.Errorf("readelf finds %d threads, want %d", got, want)
			}
			h.Signal(syscall.SIGCONT)
			h.checkRunsOn(t)
		})
	}
}

// runTool returns what a program prints, to stdout and stderr.
func runTool(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}
