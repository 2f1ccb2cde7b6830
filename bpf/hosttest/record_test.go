package hosttest

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/loader"
	"ustack/symbolize"
	"ustack/symbolize/space"
	"ustack/testdata/nodetest"
	"ustack/tools/jscore"
	"ustack/tools/trace"
)

// A scene is a program in which the main thread has frames of some kinds.
type scene struct {
	name    string
	options nodetest.Options
	tier    symbolize.Tier
	stop    func(t *testing.T, pid int) // where its stack is recorded
	has     string                      // how one of its frames begins
}

var scenes = []scene{
	{"interpreted", nodetest.Options{Script: "postmortem_stack.js", Args: []string{"--tier=interpreted"}}, symbolize.Interpreted, stop, "interpreted leaf"},
	{"turbofan", nodetest.Options{Script: "postmortem_stack.js", Args: []string{"--tier=turbofan"}}, symbolize.Turbofan, stop, "turbofan leaf"},
	{"wasm", nodetest.Options{Script: "wasm.js", Args: []string{"nested"}}, symbolize.Turbofan, stop, "wasm"},
	{"regexp", nodetest.Options{Script: "regexps.js"}, symbolize.Turbofan, stop, "regexp"},
	{"signal", nodetest.Options{Script: "regexps.js"}, symbolize.Turbofan, stopInHandler, "regexp"},
}

// TestRecord records the stacks in testdata: make record-stacks.
func TestRecord(t *testing.T) {
	if os.Getenv("USTACK_RECORD") == "" {
		t.Skip("USTACK_RECORD=1 records the stacks in testdata again")
	}
	nodetest.Root(t)
	for _, version := range nodetest.Versions {
		for _, s := range scenes {
			t.Run(fmt.Sprintf("%d-%s", nodetest.Major(version), s.name), func(t *testing.T) {
				r := record(t, newHost(t), version, s)
				for !r.has(s.has) { // it was stopped elsewhere
					r = record(t, newHost(t), version, s)
				}
				var packed bytes.Buffer
				z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
				if err != nil {
					t.Fatal(err)
				}
				if err := json.NewEncoder(z).Encode(r); err != nil {
					t.Fatal(err)
				}
				if err := z.Close(); err != nil {
					t.Fatal(err)
				}
				file := filepath.Join("testdata", fmt.Sprintf("node%d-%s.json.gz", nodetest.Major(version), s.name))
				if err := os.WriteFile(file, packed.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// has reports whether a frame begins so.
func (r *recording) has(prefix string) bool {
	return slices.ContainsFunc(r.Frames, func(frame string) bool { return strings.HasPrefix(frame, prefix) })
}

// record unwinds the main thread of a process with both unwinders, and keeps what they
// read.
func record(t *testing.T, h *host, version string, s scene) *recording {
	t.Helper()
	flags, ok := nodetest.TierFlags(version, s.tier)
	if !ok {
		t.Fatalf("node %s has no tier %v", version, s.tier)
	}
	s.options.Flags = flags
	target := nodetest.Start(t, nodetest.Node(t, version), s.options)
	r := &recording{Node: version}
	describe(t, target.PID, r)
	s.stop(t, target.PID)
	observe(t, target.PID, r)
	u, err := h.unwind(r, target.PID)
	if err != nil {
		t.Fatal(err)
	}
	r.Frames = u.text()
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", target.PID))
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	r.Rows = slices.DeleteFunc(r.Rows, func(row row) bool { return !slices.Contains(u.rows, row.Key) })
	r.Memory = read(t, memory, u.touched)
	live := &liveMemory{file: memory}
	r.unwindAsCore(t, live)
	r.CoreMemory = read(t, memory, live.touched)
	return r
}

// stop stops a process wherever it is.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

// stopInHandler stops a process in a handler of node's own for a signal, which has
// interrupted the main thread.
func stopInHandler(t *testing.T, pid int) {
	t.Helper()
	runtime.LockOSThread() // only the thread that traces another may step it
	defer runtime.UnlockOSThread()
	if err := unix.PtraceSeize(pid); err != nil {
		t.Fatal(err)
	}
	if err := unix.PtraceInterrupt(pid); err != nil {
		t.Fatal(err)
	}
	stepped(t, pid)
	if err := unix.Tgkill(pid, pid, unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	var interrupted uint64 // its frame pointer
	built := false
	for signal := unix.Signal(0); !built; {
		if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SINGLESTEP, uintptr(pid), 0, uintptr(signal), 0, 0); errno != 0 {
			t.Fatal(errno)
		}
		var fp uint64
		signal, fp = stepped(t, pid)
		switch {
		case signal == unix.SIGUSR1:
			interrupted = fp
		case signal != unix.SIGTRAP:
			t.Fatalf("the thread stopped with %v", signal)
		default:
			signal, built = 0, interrupted != 0 && fp != interrupted
		}
	}
	if err := unix.Tgkill(pid, pid, unix.SIGSTOP); err != nil { // it takes it before its next instruction
		t.Fatal(err)
	}
	if err := unix.PtraceDetach(pid); err != nil {
		t.Fatal(err)
	}
}

// stepped waits until a traced thread has stopped. It returns the signal by which, and
// the thread's frame pointer.
func stepped(t *testing.T, pid int) (unix.Signal, uint64) {
	t.Helper()
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, unix.WALL, nil); err != nil || !status.Stopped() {
		t.Fatalf("wait for a traced thread: status %#x, %v", status, err)
	}
	var registers unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &registers); err != nil {
		t.Fatal(err)
	}
	return status.StopSignal(), framePointer(&registers)
}

// liveMemory is a process's memory. It notes what is read.
type liveMemory struct {
	file    *os.File
	touched []touch
}

func (m *liveMemory) ReadAt(p []byte, address uint64) (int, error) {
	n, err := m.file.ReadAt(p, int64(address))
	if err != nil {
		return n, space.ErrUnmapped
	}
	m.touched = append(m.touched, touch{address, uint64(len(p))})
	return n, nil
}

func (m *liveMemory) NextData(address uint64) (uint64, bool) { return address, true }

// describe fills in what user space tells the kernel of a process.
func describe(t *testing.T, pid int, r *recording) {
	t.Helper()
	spec, err := bpf.LoadJsprof()
	if err != nil {
		t.Fatal(err)
	}
	var maps trace.Maps
	programs, _, err := loader.Load(spec, &maps)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		defer p.Close()
	}
	defer maps.Processes.Close()
	defer maps.Scripts.Close()
	defer maps.Rows.Close()
	table := trace.NewTable(maps)
	defer table.Close()
	if err := table.Add(pid); err != nil {
		t.Fatal(err)
	}
	// The unwind tables of the libraries come later.
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 200 {
		if err := maps.Processes.Lookup(uint32(pid), &r.Process); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(r.Process.Ranges[:], func(r bpf.TraceRange) bool { return r.RowCount > 100 }) {
			break
		}
		<-tick.C
		if err := table.Refresh(pid); err != nil {
			t.Fatal(err)
		}
	}
	r.Rows = rowsOf(t, maps.Rows, &r.Process)
}

func rowsOf(t *testing.T, table *ebpf.Map, p *bpf.TraceProcess) []row {
	t.Helper()
	var rows []row
	seen := map[uint32]bool{}
	for _, m := range p.Ranges[:p.RangeCount] {
		for key := m.Rows; key < m.Rows+m.RowCount; key++ {
			if seen[key] {
				continue
			}
			seen[key] = true
			one := row{Key: key}
			if err := table.Lookup(key, &one.Row); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, one)
		}
	}
	return rows
}

// observe fills in the main thread's registers, and the calls that the unwinder of
// cores finds.
func observe(t *testing.T, pid int, r *recording) {
	t.Helper()
	d, err := jscore.Attach(t.Context(), pid, jscore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	thread := d.Threads()[0]
	general := thread.Registers.General // DWARF's numbers: 5 is rdi, 13 is r13
	r.Registers = registers{IP: thread.Registers.PC, SP: thread.Registers.SP, BP: thread.Registers.FP, DI: general[5], R13: general[13]}
	r.ThreadPointer = thread.Registers.ThreadPointer
	for _, f := range d.Stack(thread).Frames {
		if !f.Inlined && (f.Kind == symbolize.JS || f.Kind == symbolize.Builtin && f.Call.Function != 0) {
			r.Calls = append(r.Calls, f.Name)
		}
	}
}

// read returns the memory that was touched.
func read(t *testing.T, memory *os.File, touched []touch) []piece {
	t.Helper()
	slices.SortFunc(touched, func(a, b touch) int { return cmp.Compare(a.Address, b.Address) })
	var merged []touch
	for _, m := range touched {
		if last := len(merged) - 1; last >= 0 && m.Address <= merged[last].Address+merged[last].Bytes {
			merged[last].Bytes = max(merged[last].Bytes, m.Address+m.Bytes-merged[last].Address)
			continue
		}
		merged = append(merged, m)
	}
	var pieces []piece
	for _, m := range merged {
		p := piece{m.Address, make(hexBytes, m.Bytes)}
		if _, err := memory.ReadAt(p.Bytes, int64(p.Address)); err != nil {
			t.Fatal(err)
		}
		pieces = append(pieces, p)
	}
	return pieces
}
