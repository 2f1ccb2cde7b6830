package trace

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"ustack/bpf"
	"ustack/symbolize/process"
	"ustack/symbolize/v8"
	"ustack/testdata/nodetest"
)

// traced returns a session that has described a busy process to the kernel.
func traced(t *testing.T) (*sampled, *nodetest.Target) {
	t.Helper()
	target := busy(t)
	s := openSampled(t, Options{Selection: Selection{PIDs: []int{target.PID}}}, Tool{})
	if err := errors.Join(s.Listen(), s.Add()); err != nil {
		t.Fatal(err)
	}
	return s, target
}

// TestKernelIsGivenADescription reads what the kernel was given about a process.
func TestKernelIsGivenADescription(t *testing.T) {
	s, target := traced(t)
	var d bpf.TraceProcess
	if err := s.objects.Processes.Lookup(uint32(target.PID), &d); err != nil {
		t.Fatal(err)
	}
	if d.HasV8 != 1 || int(d.Generation) != int(s.Table.Generation(target.PID)) || d.Generation == 0 || d.TlsIsolate == 0 {
		t.Errorf("description = has V8 %d, generation %d, isolate at %d, want 1, %d and one", d.HasV8, d.Generation, d.TlsIsolate, s.Table.Generation(target.PID))
	}
	if d.Layout.SharedName == 0 || d.Layout.ScriptName == 0 || d.Layout.MapInstanceType == 0 {
		t.Errorf("layout = %+v, want offsets", d.Layout)
	}
	ranges := d.Ranges[:d.RangeCount]
	kinds := make(map[bpf.TraceCode]int)
	rows := uint32(0)
	for i, r := range ranges {
		kinds[bpf.TraceCode(r.End&uint64(bpf.TraceRangeBitRANGE_CODE))]++
		rows += r.RowCount
		if i > 0 && ranges[i-1].End&^rangeBits > r.Start {
			t.Errorf("range %d begins at %#x, before the end of the last, %#x", i, r.Start, ranges[i-1].End)
		}
	}
	for _, kind := range []bpf.TraceCode{bpf.TraceCodeCODE_NATIVE, bpf.TraceCodeCODE_BUILTIN, bpf.TraceCodeCODE_JIT} {
		if kinds[kind] == 0 {
			t.Errorf("no range has code of kind %d among %d", kind, len(ranges))
		}
	}
	if rows == 0 {
		t.Error("no range has unwind tables, want libc's at least")
	}
}

// TestChangesAreAnnounced describes a process again, and forgets it.
func TestChangesAreAnnounced(t *testing.T) {
	s, target := traced(t)
	serial := func() (n uint32) {
		t.Helper()
		if err := s.objects.Described.Get(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before, generation := serial(), s.Table.Generation(target.PID)
	if err := s.Table.Refresh(target.PID); err != nil {
		t.Fatal(err)
	}
	if after := serial(); after == before {
		t.Errorf("serial = %d before and after a new description", after)
	}
	if got := s.Table.Generation(target.PID); got != generation {
		t.Errorf("generation = %d, then %d: the program is the same", generation, got)
	}
	if err := s.Table.Add(target.PID); err != nil { // as after an exec
		t.Fatal(err)
	}
	if got := s.Table.Generation(target.PID); got == generation || got == 0 {
		t.Errorf("generation = %d for two programs", got)
	}
	before = serial()
	if err := s.Table.Remove(target.PID); err != nil {
		t.Fatal(err)
	}
	var d bpf.TraceProcess
	if err := s.objects.Processes.Lookup(uint32(target.PID), &d); !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Errorf("err = %v, want that the kernel knows the process no longer", err)
	}
	if serial() == before || s.Table.Has(target.PID) || s.Table.Generation(target.PID) != 0 {
		t.Error("the process is still traced")
	}
	if err := errors.Join(s.Table.Remove(target.PID), s.Table.Refresh(target.PID)); err != nil {
		t.Errorf("second remove: %v", err)
	}
}

// TestFunctionsOfAProcessAreFound looks for functions of node and of the C library.
func TestFunctionsOfAProcessAreFound(t *testing.T) {
	s, target := traced(t)
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		object, symbol string
		found          bool
	}{
		{"", "uv_queue_work", true},
		{"node", "uv_queue_work", true},
		{"", "abort", true},
		{"libc.so.6", "abort", true},
		{"libc.so.6", "uv_queue_work", false},
		{exe, "uv_queue_work", false},
		{"", "no_such_function", false},
	} {
		m, err := s.Table.Object(target.PID, tt.object, tt.symbol)
		if err != nil || (m != nil) != tt.found {
			t.Errorf("%s of %q: found = %v, %v, want %v", tt.symbol, tt.object, m != nil, err, tt.found)
		}
		if m == nil {
			continue
		}
		code, offset := m.Code(tt.symbol)
		inFile := make([]byte, len(code))
		if _, err := m.ReadAt(inFile, int64(offset)); err != nil || len(code) == 0 || !slices.Equal(code, inFile) {
			t.Errorf("%s: %d bytes of code at %#x, not as in the file (%v)", tt.symbol, len(code), offset, err)
		}
		if path, err := m.Path(); path == "" || err != nil {
			t.Errorf("path = %q, %v", path, err)
		}
		if code, _ := m.Code("no_such_function"); code != nil {
			t.Errorf("%d bytes of a function that does not exist", len(code))
		}
	}
	if m, err := s.Table.Module(1<<22, "abort"); m != nil || err != nil {
		t.Errorf("a process that is not traced has %v, %v", m, err)
	}
}

// TestLeafIsInItsFile takes a stack and asks which file its first frame is in.
func TestLeafIsInItsFile(t *testing.T) {
	target := busy(t)
	leaves := 0
	work := make(chan func(context.Context) error, 1)
	var s *sampled
	s = openSampled(t, Options{Selection: Selection{PIDs: []int{target.PID}}, Duration: time.Minute}, Tool{
		Poll: UsualPoll,
		Stack: func(_ uint64, stack Stack) {
			m, addresses := s.Table.Leaf(stack)
			if m == nil {
				return
			}
			if len(addresses) == 0 {
				t.Error("a leaf in a file has no address")
				return
			}
			if m.Name(addresses[0]) == "" {
				return
			}
			leaves++
			if leaves == 3 {
				work <- func(context.Context) error { return ErrDone }
			}
		},
	})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), Loop{Attach: s.sample, Work: work}); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(); err != nil || leaves == 0 {
		t.Errorf("leaves in files = %d, %v, want some", leaves, err)
	}
	if m, addresses := s.Table.Leaf(Stack{}); m != nil || addresses != nil {
		t.Errorf("leaf of no stack = %v, %#x", m, addresses)
	}
}

// TestProcessesWithoutV8AreRecognised: All rejects them, a pid warns.
func TestProcessesWithoutV8AreRecognised(t *testing.T) {
	nodetest.Root(t)
	s := openSampled(t, Options{Selection: Selection{PIDs: []int{os.Getpid()}}}, Tool{})
	if err := s.Table.AddV8(os.Getpid()); !errors.Is(err, v8.ErrNotV8) {
		t.Errorf("err = %v, want %v", err, v8.ErrNotV8)
	}
	if s.Table.Has(os.Getpid()) {
		t.Error("the rejected process is traced")
	}
	if err := s.Table.Add(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	diagnostics := s.Table.Diagnostics()
	if len(diagnostics) != 1 || !errors.Is(diagnostics[0], v8.ErrNotV8) {
		t.Errorf("diagnostics = %v, want %v", diagnostics, v8.ErrNotV8)
	}
	if node, version := s.Table.Versions(); node != "" || version != "" {
		t.Errorf("versions = %q, %q, want none", node, version)
	}
	if err := s.Table.Add(1 << 22); !errors.Is(err, process.ErrGone) {
		t.Errorf("err = %v, want %v", err, process.ErrGone)
	}
}
