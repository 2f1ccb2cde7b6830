package trace

import (
	"debug/elf"
	"fmt"
	"math"
	"slices"

	"ustack/bpf"
	"ustack/symbolize/contain"
	"ustack/symbolize/unwind"
)

// startBytes is the size of _start, where a program begins: 38 bytes with glibc.
// _start has no caller.
const startBytes = 64

// A rowRange is the part of the kernel's rows that belongs to a file: how to unwind
// its functions, which keep no frame pointers.
type rowRange struct{ first, count uint32 }

// giveRows gives the kernel the unwind tables of b's file.
func (t *Table) giveRows(b *binary) {
	table := b.table
	b.table = nil
	if len(table) == 0 || t.maps.Rows == nil {
		return
	}
	if uint64(t.rows)+uint64(len(table)) > uint64(t.maps.Rows.MaxEntries()) {
		t.warn(fmt.Errorf("%s: no room for its unwind tables (callers that keep no frame pointer are not seen)", b.path))
		return
	}
	keys, values := make([]uint32, len(table)), make([]bpf.TraceUnwindRow, len(table))
	for i, r := range table {
		keys[i] = t.rows + uint32(i)
		values[i] = bpf.TraceUnwindRow{Start: r.Start, Distance: r.Distance, Fp: r.FP, Base: uint8(r.Base)}
	}
	if _, err := t.maps.Rows.BatchUpdate(keys, values, nil); err != nil {
		t.warn(fmt.Errorf("give the kernel the unwind tables of %s: %w", b.path, err))
		return
	}
	b.rows = rowRange{t.rows, uint32(len(table))}
	t.rows += uint32(len(table))
}

// unwindRows returns the rows of the binary's file; none where frame pointers are
// used instead, which they are in the file that holds V8, but for the program's entry.
func (b *binary) unwindRows() []unwind.Row {
	if b.elf == nil || b.elf.Machine() != elf.EM_X86_64 {
		return nil
	}
	if b.v8 != nil {
		entry := b.elf.Entry()
		if entry == 0 || entry+startBytes > math.MaxUint32 {
			return nil
		}
		return []unwind.Row{{Start: uint32(entry), Base: unwind.Outermost}, {Start: uint32(entry + startBytes)}}
	}
	rows, err := readRows(b)
	if err != nil {
		return nil
	}
	return rows
}

func readRows(b *binary) (rows []unwind.Row, err error) {
	defer contain.Panic(&err, "read the unwind tables of %s", b.path)
	table, err := unwind.New(b.file)
	if err != nil {
		return nil, err
	}
	return table.Rows(), nil
}

// setRows has the kernel unwind the code in r, of m, by its file's rows.
func setRows(r *bpf.TraceRange, m mapping, bias uint64) {
	r.Bias, r.Rows, r.RowCount = bias, m.binary.rows.first, m.binary.rows.count
}

// carve splits off a range for the place where the program in m begins.
func carve(ranges []bpf.TraceRange, m mapping, bias uint64) []bpf.TraceRange {
	start := m.binary.elf.Entry() + bias
	at := slices.IndexFunc(ranges, func(r bpf.TraceRange) bool {
		return start >= r.Start && start < r.End&^rangeBits && r.End&rangeBits == uint64(bpf.TraceCodeCODE_NATIVE)
	})
	if at < 0 || m.binary.rows.count == 0 {
		return ranges
	}
	whole := ranges[at]
	first, last := whole, whole
	end := min((start+startBytes)&^rangeBits, whole.End&^rangeBits)
	first.End = start&^rangeBits | whole.End&rangeBits
	middle := bpf.TraceRange{Start: start &^ rangeBits, End: end | whole.End&rangeBits}
	setRows(&middle, m, bias)
	last.Start = end
	return slices.Replace(ranges, at, at+1, first, middle, last)
}
