package trace

import (
	"fmt"
	"math"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/symbolize/contain"
	"ustack/symbolize/unwind"
)

// So many processes, each with all of its libraries, have at most so many rows and
// descriptions. Room for more takes memory of the kernel, 8 bytes a row and 8 KiB a
// description, which it clears first.
const (
	fewProcesses = 2
	rowsOfFew    = 1 << 20
	entriesOfFew = 8
)

// A rowRange is the part of the kernel's rows that belongs to a file: how to unwind
// its code where it has no frame pointer.
type rowRange struct{ first, count uint32 }

// giveRows gives the kernel the unwind tables of b's file.
func (t *Table) giveRows(b *binary) {
	if b.rules == nil || t.maps.Rows == nil {
		return
	}
	table := b.rules.Rows
	b.rules.Rows = nil
	if len(table) == 0 {
		return
	}
	if uint64(t.rows)+uint64(len(table)) > uint64(t.maps.Rows.MaxEntries()) {
		t.warn(fmt.Errorf("%s: no room for its unwind tables (callers that keep no frame pointer are not seen)", b.path))
		return
	}
	if err := t.writeRows(table); err != nil {
		t.warn(fmt.Errorf("give the kernel the unwind tables of %s: %w", b.path, err))
		return
	}
	b.rows = rowRange{t.rows, uint32(len(table))}
	t.rows += b.rows.count
}

// writeRows writes rows to the kernel's memory after those that are there. What is mapped of
// that memory counts as ours, so only a part is mapped at a time.
func (t *Table) writeRows(rows []unwind.Row) error {
	page := os.Getpagesize()
	at := int(t.rows) * rowBytes
	for part := range slices.Chunk(rows, rowsAtOnce) {
		within := at % page
		memory, err := unix.Mmap(t.maps.Rows.FD(), int64(at-within), within+len(part)*rowBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		values := unsafe.Slice((*bpf.TraceUnwindRow)(unsafe.Pointer(&memory[within])), len(part))
		for i, r := range part {
			values[i] = bpf.TraceUnwindRow{Start: r.Start, Distance: r.Distance, Fp: r.FP, Base: uint8(r.Base)}
		}
		if err := unix.Munmap(memory); err != nil {
			return err
		}
		at += len(part) * rowBytes
	}
	return nil
}

const (
	rowBytes   = int(unsafe.Sizeof(bpf.TraceUnwindRow{}))
	rowsAtOnce = 1 << 16 // that are mapped at one time
)

// unwindRules returns how to unwind the code of the binary's file; nil if that is not
// known.
func (b *binary) unwindRules() *unwind.Rules {
	if b.elf == nil {
		return nil
	}
	rules, err := readRules(b)
	if err != nil {
		return nil
	}
	return rules
}

func readRules(b *binary) (rules *unwind.Rules, err error) {
	defer contain.Panic(&err, "read the unwind tables of %s", b.path)
	return unwind.ReadRules(b.file, b.embedded())
}

// embedded returns the addresses of V8's embedded builtins, whose frames are V8's.
func (b *binary) embedded() unwind.Span {
	if b.v8 == nil {
		return unwind.Span{}
	}
	offset, size := b.v8.Builtins()
	start, ok := b.elf.Address(offset)
	if !ok || size > math.MaxUint32 || start > math.MaxUint32-size {
		return unwind.Span{}
	}
	return unwind.Span{Start: uint32(start), End: uint32(start + size)}
}

// setRows has the kernel unwind the code in r, of b, by its file's rows.
func (b *binary) setRows(r *bpf.TraceRange, bias uint64) {
	r.Bias, r.Rows, r.RowCount = bias, b.rows.first, b.rows.count
}

// framed splits a range of the code of b, which holds V8, into parts: where functions
// call others only with a frame pointer, rows are needed for the innermost code only.
func (b *binary) framed(whole bpf.TraceRange, bias uint64) []bpf.TraceRange {
	if b.rows.count == 0 {
		return []bpf.TraceRange{whole}
	}
	kind, limit := whole.End&rangeBits, whole.End&^rangeBits
	var parts []bpf.TraceRange
	add := func(start, end, kind uint64) {
		if start < end {
			r := bpf.TraceRange{Start: start, End: end | kind}
			b.setRows(&r, bias)
			parts = append(parts, r)
		}
	}
	at := whole.Start
	for _, s := range b.rules.Frameless {
		start := min(max(at, (uint64(s.Start)+bias)&^rangeBits), limit)
		end := min(max(at, (uint64(s.End)+bias+rangeBits)&^rangeBits), limit)
		add(at, start, kind|uint64(bpf.TraceRangeBitRANGE_FRAMED))
		add(start, end, kind)
		at = end
	}
	add(at, limit, kind|uint64(bpf.TraceRangeBitRANGE_FRAMED))
	return parts
}
