package unwind

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"ustack/symbolize/elfsym"
)

// A Base is the rule from which a Row's Distance counts.
type Base uint8

const (
	Unknown   Base = iota // no rule, or one that rows cannot express
	FromSP                // the stack pointer
	FromFP                // the frame pointer
	Signal                // a signal handler returns here
	Outermost             // the function has no caller
	Prologue              // the function begins here with push %rbp; mov %rsp,%rbp
	Stub                  // the stack pointer; one word more from the eleventh byte of a linker's stub on
	SavedAtSP             // a stack pointer that is saved at a distance from the stack pointer
	SavedAtFP             // the same, from the frame pointer
	SavedAtR9             // the same, from the stack pointer by the words that r9 says, and one more
	LinkSaved             // the stack pointer; the return address is saved, the frame pointer is not: see savedLink

	Register Base = 16 // and above: a register by its DWARF number, where no call has changed it
)

// A Row says how to unwind the code from an address in the file up to the next
// row's.
type Row struct {
	Start    uint32
	Distance uint16 // words from the base to where the caller's frame begins; where a stack pointer is saved: see savedAt
	FP       uint8  // words below that: where the caller's frame pointer is saved; 0: in the register; FPHere: at it
	Base     Base
}

// FPHere is the FP of a Row whose code has saved the caller's frame pointer where the
// frame pointer points.
const FPHere = math.MaxUint8

// What a Distance holds if a stack pointer is saved: in its low bits the words to where,
// signed, and above them the words from that stack pointer to where the caller's frame
// begins.
const (
	slotBits  = 12
	maxSlot   = 1<<(slotBits-1) - 1
	maxBeyond = 1<<(16-slotBits) - 1
)

func savedAt(slot, beyond int64) uint16 {
	return uint16(slot)&(1<<slotBits-1) | uint16(beyond)<<slotBits
}

// savedLink is a Distance that holds the words to where the caller's frame begins, and the
// words below that to where the return address is saved.
func savedLink(words, below int64) uint16 { return uint16(words) | uint16(below)<<slotBits }

// A Span is a range of addresses in the file.
type Span struct{ Start, End uint32 }

// Rules say how to unwind the code of one file.
type Rules struct {
	Rows []Row // by address
	// Frameless holds all functions that may call others without a frame pointer, by
	// address, and a few functions between them. Those outside build a frame first.
	Frameless []Span

	spare []Row // memory for other rows
}

const (
	maxFrameless = 64
	nearby       = 16 << 10 // bytes between frameless functions in one Span
	padding      = 16       // bytes between functions that no code runs in, at most

	// What a function and a row take of node's table, at least; libraries have more rows.
	functionBytes = 36
	rowBytes      = 11
)

// ReadRules reads the section .eh_frame of an ELF file, up to where it is damaged. It
// omits functions that end beyond 4 GiB; functions whose rules are not understood have
// Unknown. What the section does not describe of an x86-64 file's code has rows derived from
// its instructions, except what is to be skipped.
func ReadRules(file io.ReaderAt, skip ...Span) (*Rules, error) {
	f, err := elfsym.Parse(file)
	if err != nil {
		return nil, fmt.Errorf("read unwind tables: %w", err)
	}
	table, err := findSection(f)
	if err != nil && !errors.Is(err, errNoTable) {
		return nil, err
	}
	rules, gaps := rulesOf(table)
	if f.Machine == elf.EM_X86_64 {
		rules.merge(derive(f, without(gaps, skip), maxRows-len(rules.Rows)))
	} else if start := uint32(f.Entry); f.Entry != 0 && f.Entry < math.MaxUint32-startBytes && covers(gaps, start) {
		rules.merge([]Row{{Start: start, Base: Outermost}, {Start: start + startBytes}})
	}
	rules.spare = nil
	return rules, nil
}

// rulesOf returns the rules of a table, and what is between the functions that it describes.
func rulesOf(table section) (rules *Rules, gaps []Span) {
	s := scan(table)
	// Where functions overlap, those that begin later win.
	slices.SortStableFunc(s.functions, func(a, b function) int { return cmp.Compare(a.start, b.start) })
	rules = &Rules{Rows: make([]Row, 0, len(s.rows)), spare: s.rows[:0]}
	end := uint32(0) // of the functions so far
	for _, f := range s.functions {
		if f.start > end && f.start-end > padding {
			gaps = append(gaps, Span{end, f.start})
			if end > 0 {
				rules.add(Row{Start: end})
			}
		}
		for _, row := range s.rows[f.rows.Start:f.rows.End] {
			rules.add(row)
		}
		if f.frameless {
			rules.Frameless = append(rules.Frameless, Span{f.start, f.end})
		}
		if end = f.end; len(rules.Frameless) > maxFrameless*maxFrameless {
			rules.Frameless = join(rules.Frameless, nearby)
		}
	}
	if len(s.functions) > 0 {
		rules.add(Row{Start: end})
	}
	rules.joinFrameless()
	return rules, append(gaps, Span{end, math.MaxUint32})
}

// joinFrameless leaves maxFrameless spans or fewer.
func (u *Rules) joinFrameless() {
	u.Frameless = join(u.Frameless, nearby)
	for gap := uint32(2 * nearby); len(u.Frameless) > maxFrameless; gap *= 2 {
		u.Frameless = join(u.Frameless, gap)
	}
}

// without returns what spans, sorted by their start, do not share with others.
func without(spans, others []Span) []Span {
	for _, o := range others {
		var rest []Span
		for _, s := range spans {
			for _, part := range []Span{{s.Start, min(s.End, o.Start)}, {max(s.Start, o.End), s.End}} {
				if part.Start < part.End {
					rest = append(rest, part)
				}
			}
		}
		spans = rest
	}
	return spans
}

// covers reports whether the code at the start of a program is in one of some spans.
func covers(spans []Span, start uint32) bool {
	return slices.ContainsFunc(spans, func(s Span) bool { return s.Start <= start && start+startBytes <= s.End })
}

// merge adds rows for code for which there was none, or an Unknown one.
func (u *Rules) merge(rows []Row) {
	if len(rows) == 0 {
		return
	}
	for i, r := range rows[:len(rows)-1] {
		if r.framed(x86Arch) || r.Base == Unknown {
			continue
		}
		if last := len(u.Frameless) - 1; i > 0 && last >= 0 && u.Frameless[last].End == r.Start {
			u.Frameless[last].End = rows[i+1].Start
		} else {
			u.Frameless = append(u.Frameless, Span{r.Start, rows[i+1].Start})
		}
	}
	slices.SortFunc(u.Frameless, func(a, b Span) int { return cmp.Compare(a.Start, b.Start) })
	u.joinFrameless()
	old := u.Rows
	u.Rows = slices.Grow(u.spare, len(old)+len(rows))
	for len(old)+len(rows) > 0 {
		from := &old
		if len(old) == 0 || len(rows) > 0 && after(old[0], rows[0]) {
			from = &rows
		}
		u.add((*from)[0])
		*from = (*from)[1:]
	}
}

// after reports whether a row is to be added after another one. Of two for the same
// address, that is the one that is known.
func after(r, other Row) bool {
	return r.Start > other.Start || r.Start == other.Start && r.Base != Unknown
}

// add appends a row, instead of those that are not for lower addresses, and unless the one
// before says the same.
func (u *Rules) add(r Row) {
	for last := len(u.Rows) - 1; last >= 0 && u.Rows[last].Start >= r.Start; last-- {
		u.Rows = u.Rows[:last]
	}
	if last := len(u.Rows) - 1; last < 0 || !u.Rows[last].says(r) {
		u.Rows = append(u.Rows, r)
	}
}

// says reports whether r continues with the rule of next.
func (r Row) says(next Row) bool {
	return r.Base == next.Base && r.Distance == next.Distance && r.FP == next.FP && r.Base != Prologue
}

// join joins spans, sorted by their start, that are up to gap bytes apart.
func join(spans []Span, gap uint32) []Span {
	joined := spans[:0]
	for _, s := range spans {
		if last := len(joined) - 1; last >= 0 && uint64(s.Start) <= uint64(joined[last].End)+uint64(gap) {
			joined[last].End = max(joined[last].End, s.End)
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// framed reports whether the row is one of those of functions that call others only
// with a frame pointer: before they have pushed it, after that, with it, and after
// they have restored it. Where calls are linked, the frame pointer is saved with the return
// address.
func (r Row) framed(arch *Arch) bool {
	if arch.HasLink() {
		return r.Base == FromSP || r.Base == FromFP
	}
	switch r.Base {
	case Prologue:
		return true
	case FromSP:
		return r.Distance == 1 && (r.FP == 0 || r.FP == 2) || r.Distance == 2 && r.FP == 2
	case FromFP:
		return r.Distance == 2 && r.FP == 2
	}
	return false
}

// The rows of a function that begins with push %rbp; mov %rsp,%rbp, from its start.
var prologue = [...]Row{{0, 1, 0, FromSP}, {1, 2, 2, FromSP}, {4, 2, 2, FromFP}}

// foldPrologue replaces the first rows of a function by one if they are those of the
// usual prologue.
func foldPrologue(rows []Row) []Row {
	if len(rows) < len(prologue) {
		return rows
	}
	for i, want := range prologue {
		want.Start += rows[0].Start
		if rows[i] != want {
			return rows
		}
	}
	rows[0] = Row{Start: rows[0].Start, Base: Prologue}
	return slices.Delete(rows, 1, len(prologue))
}
