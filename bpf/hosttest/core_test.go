package hosttest

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"slices"
	"testing"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/symbolize/reader"
	"ustack/symbolize/space"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
	"ustack/symbolize/v8/stack"
	"ustack/testdata/nodetest"
)

const (
	pageMask     = 4095
	maxMainStack = 8 << 20
)

// A recordedMemory is that of a recording, by address.
type recordedMemory []piece

func (m recordedMemory) ReadAt(p []byte, address uint64) (int, error) {
	at, found := slices.BinarySearchFunc(m, address, func(m piece, address uint64) int { return cmp.Compare(m.Address, address) })
	if !found {
		at--
	}
	if at < 0 || address-m[at].Address >= uint64(len(m[at].Bytes)) {
		return 0, space.ErrUnmapped
	}
	n := copy(p, m[at].Bytes[address-m[at].Address:])
	if n < len(p) {
		return n, space.ErrUnmapped
	}
	return n, nil
}

// word returns the word at address, if it is recorded.
func (m recordedMemory) word(address uint64) (uint64, bool) {
	var word [8]byte
	n, _ := m.ReadAt(word[:], address)
	return binary.LittleEndian.Uint64(word[:]), n == len(word)
}

func (m recordedMemory) NextData(address uint64) (uint64, bool) { return address, true }

// unwindAsCore returns the functions that the unwinder of cores finds in memory, leaf
// first.
func (r *recording) unwindAsCore(t *testing.T, memory space.Source) []string {
	t.Helper()
	path := nodetest.Node(t, r.Node)
	files := new(reader.Reader)
	defer files.Close()
	s := space.New(memory, r.layout(t, path), space.Finder{Exe: path, Files: files})
	defer s.Close()
	node := s.Modules()[0]
	if node.Err != nil {
		t.Fatal(node.Err)
	}
	b, err := v8.Inspect(node.ELF)
	if err != nil {
		t.Fatal(err)
	}
	// The dispatch table is not recorded: compiled functions have no executing line.
	heap, err := v8.NewHeap(s, b)
	if err != nil {
		t.Fatal(err)
	}
	codes, _ := code.NewFinder(heap, node.Bias)
	u := stack.New(s, stack.V8{Module: node, Binary: b, Heap: heap, Codes: codes})
	thread := stack.Thread{TID: tgid, Registers: stack.Registers{
		Machine: elf.EM_X86_64, PC: r.Registers.IP, SP: r.Registers.SP, FP: r.Registers.BP, ThreadPointer: r.ThreadPointer,
	}}
	general := &thread.Registers.General // DWARF's numbers
	general[5], general[6], general[7], general[13] = r.Registers.DI, r.Registers.BP, r.Registers.SP, r.Registers.R13
	if thread.Isolate, err = s.Word(r.ThreadPointer + uint64(r.Process.TlsIsolate)); err != nil {
		t.Fatal(err)
	}
	var calls []string
	for _, f := range u.Stack(thread).Frames {
		if !f.Inlined && (f.Kind == symbolize.JS || f.Kind == symbolize.Builtin && f.Call.Function != 0) {
			calls = append(calls, f.Name)
		}
	}
	return calls
}

// layout returns what was mapped where, as far as the recording says: node, which is
// where its file says, libraries, V8's code and the stack.
func (r *recording) layout(t *testing.T, path string) space.Layout {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if file.Type != elf.ET_EXEC {
		t.Fatalf("%s is position-independent", path)
	}
	var l space.Layout
	for _, p := range file.Progs {
		if p.Type == elf.PT_LOAD {
			m := space.Mapping{Start: p.Vaddr &^ pageMask, End: (p.Vaddr + p.Filesz + pageMask) &^ pageMask, Offset: p.Off &^ pageMask, Path: path}
			l.Mappings = append(l.Mappings, m)
			l.Regions = append(l.Regions, space.Region{Start: m.Start, End: m.End, Write: p.Flags&elf.PF_W != 0, Exec: p.Flags&elf.PF_X != 0})
		}
	}
	r.addCode(&l, path)
	top := r.Registers.SP
	for _, m := range r.Memory {
		if m.Address-r.Registers.SP < maxMainStack {
			top = m.Address + uint64(len(m.Bytes))
		}
	}
	l.Regions = append(l.Regions, space.Region{Start: r.Registers.SP &^ pageMask, End: top, Write: true})
	slices.SortFunc(l.Regions, func(a, b space.Region) int { return cmp.Compare(a.Start, b.Start) })
	return l
}

// addCode adds the code that is not where node's file says: of libraries, whose files are
// not recorded, V8's own, and V8's builtins if it mapped them a second time.
func (r *recording) addCode(l *space.Layout, node string) {
	mapped := slices.Clone(l.Mappings)
	var builtins uint64 // in node's file
	for _, code := range r.Process.Ranges[:r.Process.RangeCount] {
		m := space.Mapping{Start: code.Start, End: code.End &^ uint64(bpf.TraceRangeBitRANGE_BITS)}
		kind := bpf.TraceCode(code.End & uint64(bpf.TraceRangeBitRANGE_CODE))
		in := slices.IndexFunc(mapped, func(m space.Mapping) bool { return code.Start-m.Start < m.End-m.Start })
		if in >= 0 {
			if kind == bpf.TraceCodeCODE_BUILTIN {
				builtins = code.Start - mapped[in].Start + mapped[in].Offset
			}
			continue
		}
		switch kind {
		case bpf.TraceCodeCODE_BUILTIN:
			m.Path, m.Offset = node, builtins
		case bpf.TraceCodeCODE_NATIVE:
			m.Path = "library"
		}
		l.Regions = append(l.Regions, space.Region{Start: m.Start, End: m.End, Exec: true})
		if m.Path != "" {
			l.Mappings = append(l.Mappings, m)
		}
	}
}
