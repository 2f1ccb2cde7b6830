package unwind

import (
	"debug/elf"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"ustack/testdata/nodetest"
)

// callerByRow computes what a row says of the caller of the function at c: where its
// frame begins and its frame pointer. It is false for rows that say nothing of the kind.
func callerByRow(r Row, c Cursor, read func(uint64) (uint64, error)) (begins, fp uint64, ok bool) {
	offset := c.PC - uint64(r.Start)
	switch {
	case r.Base == Prologue && offset == 0:
		r = Row{Base: FromSP, Distance: 1}
	case r.Base == Prologue && offset < 4:
		r = Row{Base: FromSP, Distance: 2, FP: 2}
	case r.Base == Prologue:
		r = Row{Base: FromFP, Distance: 2, FP: 2}
	case r.Base == Stub && c.PC&15 >= 11:
		r.Distance++
	}
	slot := uint64(int64(int16(r.Distance<<(16-slotBits)))>>(16-slotBits)) * 8
	beyond := uint64(r.Distance>>slotBits) * 8
	switch r.Base {
	case FromSP, Stub:
		begins = c.SP() + 8*uint64(r.Distance)
	case FromFP:
		begins = c.FP() + 8*uint64(r.Distance)
	case SavedAtSP:
		begins, _ = read(c.SP() + slot)
		begins += beyond
	case SavedAtFP:
		begins, _ = read(c.FP() + slot)
		begins += beyond
	case SavedAtR9:
		begins, _ = read(c.SP() + 8*c.Regs[9] + slot)
		begins += beyond
	default:
		if r.Base < Register {
			return 0, 0, false
		}
		begins = c.Regs[r.Base-Register] + 8*uint64(r.Distance)
	}
	switch r.FP {
	case 0:
		fp = c.FP()
	case FPHere:
		fp, _ = read(c.FP())
	default:
		fp, _ = read(begins - 8*uint64(r.FP))
	}
	return begins, fp, true
}

// scramble returns a word for an address that no other address has.
func scramble(address uint64) (uint64, error) { return address * 0x9e3779b97f4a7c15, nil }

// files are those whose rows are compared: the C library, and the oldest and the newest
// node, which have OpenSSL's assembly.
func files(t *testing.T) map[string]io.ReaderAt {
	t.Helper()
	all := map[string]io.ReaderAt{"libc": libc(t)}
	for _, version := range []string{nodetest.Versions[0], nodetest.Versions[len(nodetest.Versions)-1]} {
		node := nodetest.Node(t, version)
		f, err := os.Open(node)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		all[filepath.Base(filepath.Dir(filepath.Dir(node)))+version] = f
	}
	return all
}

// TestRowsSayWhatTheTableSays compares each row with the caller that a debugger's
// library derives from the same table.
func TestRowsSayWhatTheTableSays(t *testing.T) {
	seen := map[Base]int{}
	for name, file := range files(t) {
		u, err := New(file)
		if err != nil {
			t.Fatal(err)
		}
		e, err := elf.NewFile(file)
		if err != nil {
			t.Fatal(err)
		}
		table, err := findSection(e)
		if err != nil {
			t.Fatal(err)
		}
		rules, _ := rulesOf(table)
		unlike := 0
		for i, row := range rules.Rows {
			seen[row.Base]++
			pcs := []uint64{uint64(row.Start)}
			switch row.Base {
			case Prologue:
				pcs = append(pcs, pcs[0]+1, pcs[0]+3, pcs[0]+4)
			case Stub:
				pcs = append(pcs, pcs[0]+10, pcs[0]+11)
			case Unknown: // between functions, and rules that are not understood
				continue
			}
			if i+1 < len(rules.Rows) {
				if last := uint64(rules.Rows[i+1].Start) - 1; covered(u, last) {
					pcs = append(pcs, last)
				}
			}
			for _, pc := range pcs {
				c := at(pc, stackAddress)
				begins, fp, ok := callerByRow(row, c, scramble)
				next, err := u.Caller(c, pc, scramble)
				if !ok || errors.Is(err, ErrNoEntry) { // functions overlap
					continue
				}
				if err != nil || next.SP() != begins || next.FP() != fp {
					if unlike++; unlike < 10 {
						t.Logf("%s: caller at %#x by row %+v = sp %#x, fp %#x, want %#x, %#x, %v", name, pc, row, begins, fp, next.SP(), next.FP(), err)
					}
				}
			}
		}
		// The library does not restore what a common entry says of a register.
		if unlike > len(rules.Rows)/10000 {
			t.Errorf("%s: %d of %d rows are not what the table says", name, unlike, len(rules.Rows))
		}
		checkSpans(t, name, u, rules)
	}
	for _, base := range []Base{FromSP, FromFP, Signal, Outermost, Prologue, Stub, SavedAtSP, SavedAtFP, SavedAtR9, Register} {
		if seen[base] == 0 {
			t.Errorf("no row has base %d", base)
		}
	}
	const gaps = 2000 // between functions
	if seen[Unknown] > gaps {
		t.Errorf("rows by base = %v, want %d or less unknown", seen, gaps)
	}
}

// covered reports whether a function is at pc.
func covered(u *Table, pc uint64) bool {
	_, err := u.entries.FDEForPC(pc)
	return err == nil
}

// checkSpans checks that functions which call others without a frame pointer are in
// the spans, which are sorted and apart.
func checkSpans(t *testing.T, name string, u *Table, rules *Rules) {
	t.Helper()
	for i, s := range rules.Frameless {
		if s.Start >= s.End || i > 0 && s.Start <= rules.Frameless[i-1].End {
			t.Errorf("%s: span %#x after %#x, want them to be apart", name, s, rules.Frameless[max(i, 1)-1])
		}
	}
	for _, row := range rules.Rows {
		if row.framed(x86Arch) || row.Base == Unknown {
			continue
		}
		inside := slices.ContainsFunc(rules.Frameless, func(s Span) bool { return row.Start >= s.Start && row.Start < s.End })
		if !inside {
			t.Errorf("%s: row %+v is in no span", name, row)
			return
		}
	}
	if n := len(rules.Frameless); n == 0 || n > maxFrameless {
		t.Errorf("%s: %d spans, want 1 to %d", name, n, maxFrameless)
	}
}

// TestRowsOfInstructions makes rows of tables of one function, whose frame begins at rsp+8.
func TestRowsOfInstructions(t *testing.T) {
	entry := Row{Distance: 1, Base: FromSP}
	for name, tt := range map[string]struct {
		instructions []byte
		want         []Row // from the function's start
	}{
		"none":           {nil, []Row{entry}},
		"pushes":         {pushes, []Row{entry, {1, 2, 2, FromSP}, {2, 3, 2, FromSP}}},
		"prologue":       {[]byte{0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, rbp}, []Row{{Base: Prologue}}},
		"large advances": {[]byte{0x02, 0x50, 0x0e, 16, 0x03, 0x10, 0, 0x0e, 24}, []Row{entry, {0x50, 2, 0, FromSP}, {0x60, 3, 0, FromSP}}},
		"saved state":    {[]byte{0x0a, 0x41, 0x0e, 16, 0x41, 0x0b}, []Row{entry, {1, 2, 0, FromSP}, {2, 1, 0, FromSP}}},
		"no caller":      {[]byte{0x07, 16}, []Row{{Base: Outermost}}},
		"a register":     {[]byte{0x0c, 10, 16}, []Row{{Distance: 2, Base: Register + 10}}},
		"saved at sp":    {[]byte{0x0f, 5, 0x77, 16, 0x06, 0x23, 8}, []Row{{Distance: savedAt(2, 1), Base: SavedAtSP}}},
		"saved at fp":    {[]byte{0x0f, 5, 0x76, 0x78, 0x06, 0x23, 8}, []Row{{Distance: savedAt(-1, 1), Base: SavedAtFP}}},
		"fp where it is": {[]byte{0x10, rbp, 2, 0x76, 0}, []Row{{Distance: 1, FP: FPHere, Base: FromSP}}},

		"an unknown expression":      {[]byte{0x0f, 2, 0x70, 0}, []Row{{}}},
		"fp that is lost":            {[]byte{0x07, rbp}, []Row{{}}},
		"a distance that is no word": {[]byte{0x0e, 12}, []Row{{}}},
		"a slot that is too far":     {[]byte{0x0f, 6, 0x77, 0x80, 0x80, 2, 0x06, 0x96}, []Row{{}}},
		"state that was not saved":   {[]byte{0x0b}, []Row{{}}},
		"an unknown instruction":     {[]byte{0x3f}, []Row{{}}},
		"an operand that is missing": {[]byte{0x0f, 0x7f}, []Row{{}}},
	} {
		t.Run(name, func(t *testing.T) {
			rules, _ := rulesOf(sectionOf(table("zR", tt.instructions...)))
			want := append(slices.Clone(tt.want), Row{Start: codeSize}) // nothing follows
			if unknown := len(tt.want) == 1 && tt.want[0] == (Row{}); unknown {
				want = want[:1]
			}
			for i := range want {
				want[i].Start += codeAddress
			}
			if !slices.Equal(rules.Rows, want) {
				t.Errorf("rows = %+v, want %+v", rules.Rows, want)
			}
		})
	}
}

func TestSpansThatAreNearAreJoined(t *testing.T) {
	spans := []Span{{10, 20}, {15, 18}, {25, 30}, {36, 40}}
	want := []Span{{10, 30}, {36, 40}}
	if got := join(spans, 5); !slices.Equal(got, want) {
		t.Errorf("spans = %v, want %v", got, want)
	}
}

// TestRowsOfOverlappingFunctionsAreSorted adds the rows of a function that begins within another: it wins.
func TestRowsOfOverlappingFunctionsAreSorted(t *testing.T) {
	var rules Rules
	for i, start := range []uint32{16, 24, 32, 40, 20} {
		rules.add(Row{Start: start, Distance: uint16(i), Base: FromSP})
	}
	want := []Row{{Start: 16, Base: FromSP}, {Start: 20, Distance: 4, Base: FromSP}}
	if !slices.Equal(rules.Rows, want) {
		t.Errorf("rows = %+v, want %+v", rules.Rows, want)
	}
}
