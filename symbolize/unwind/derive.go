package unwind

import (
	"debug/elf"
	"slices"
)

const (
	// enough says what part of a file's code no table has to describe for all its code to
	// be read: the other functions say where some of those begin.
	enough = 8

	// maxWork bounds the instructions that are followed for each byte of code, beyond some
	// for any. Compilers' code has one for each four, and few of them are followed again.
	maxWork = 2
	anyWork = 1 << 16
)

// A part is code of one section.
type part struct {
	Span
	section *elf.Section
}

// derive makes rows for the code in gaps from its instructions, by address, some limit of
// them at most.
func derive(f *elf.File, gaps []Span, limit int) []Row {
	sections := executable(f)
	var parts []part
	all, undescribed := uint64(0), uint64(0)
	for _, s := range sections {
		all += s.Size
		for _, gap := range gaps {
			p := Span{max(gap.Start, uint32(s.Addr)), min(gap.End, uint32(s.Addr+s.Size))}
			if p.Start < p.End && p.End-p.Start > padding {
				parts = append(parts, part{p, s})
				undescribed += uint64(p.End - p.Start)
			}
		}
	}
	if undescribed >= all/enough {
		return readAll(f, sections, parts).rows(parts, limit)
	}
	var rows []Row
	for _, p := range parts {
		m := newImage(p.Span)
		m.read(p.section, p.Span)
		m.findStarts(p.Span, false)
		rows = append(rows, m.rows([]part{p}, limit-len(rows))...)
	}
	return rows
}

// readAll reads all code, and says where the functions begin that are in parts of it.
func readAll(f *elf.File, sections []*elf.Section, parts []part) *image {
	if len(parts) == 0 {
		return &image{}
	}
	first, last := sections[0], sections[len(sections)-1]
	start, end := uint32(first.Addr), min(uint32(last.Addr+last.Size), uint32(first.Addr)+maxCode)
	m := newImage(Span{start, end})
	for _, s := range sections {
		start, end := uint32(s.Addr), uint32(s.Addr+s.Size)
		m.read(s, Span{start, end})
		for _, p := range parts {
			if p.section == s {
				m.findStarts(Span{start, p.Start}, true)
				m.findStarts(p.Span, false)
				start = p.End
			}
		}
		m.findStarts(Span{start, end}, true)
	}
	m.findSymbols(f)
	m.findTails()
	return m
}

// rows returns the rows of parts of the code; none if there were more than limit. Functions
// are analyzed from the last to the first: compilers place what is rarely executed of all
// functions before them.
func (m *image) rows(parts []part, limit int) []Row {
	budget := anyWork
	for _, p := range parts {
		budget += maxWork * int(p.End-p.Start)
	}
	f := flow{image: m}
	var rows, own []Row
	for _, p := range slices.Backward(parts) {
		rows = append(rows, Row{Start: p.End})
		for _, function := range slices.Backward(m.functions(p.Span)) {
			if m.work > budget || len(rows) > limit {
				return nil
			}
			f.analyze(function.Start, function.End)
			own = own[:0]
			for at, s := range f.changes() {
				r := s.row()
				r.Start = function.Start + uint32(at)
				if len(own) == 0 || !own[len(own)-1].says(r) {
					own = append(own, r)
				}
			}
			own = foldPrologue(own)
			slices.Reverse(own)
			rows = append(rows, own...)
		}
	}
	if len(rows) > limit {
		return nil
	}
	slices.Reverse(rows)
	return rows
}

// functions splits code where functions begin, and those that are larger than maxFunction.
func (m *image) functions(code Span) []Span {
	var all []Span
	if m.from(code.Start) == nil { // it could not be read
		return nil
	}
	for at := code.Start; at < code.End; {
		next := m.starts.next(at+1, code.End)
		if next-at > maxFunction {
			next = at + maxFunction
		}
		all = append(all, Span{at, next})
		at = next
	}
	return all
}
