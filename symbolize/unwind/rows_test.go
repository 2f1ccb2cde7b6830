package unwind

import (
	"testing"

	"github.com/go-delve/delve/pkg/dwarf/frame"
)

// TestRowsSayWhatTheTableSays compares each row of the C library with the rules
// that a debugger's library derives from the same table.
func TestRowsSayWhatTheTableSays(t *testing.T) {
	u, err := New(libc(t))
	if err != nil {
		t.Fatal(err)
	}
	var bases [Outermost + 1]int
	for _, row := range u.Rows() {
		bases[row.Base]++
		if row.Base != FromSP && row.Base != FromFP {
			continue
		}
		entry, err := u.entries.FDEForPC(uint64(row.Start))
		if err != nil {
			t.Fatalf("row at %#x: %v", row.Start, err)
		}
		rules, err := entry.EstablishFrame(uint64(row.Start))
		if err != nil {
			t.Fatalf("rules at %#x: %v", row.Start, err)
		}
		register := map[Base]uint64{FromSP: SP, FromFP: FP}[row.Base]
		if rules.CFA.Reg != register || rules.CFA.Offset != 8*int64(row.Distance) {
			t.Errorf("frame at %#x = %+v, want register %d and %d", row.Start, row, rules.CFA.Reg, rules.CFA.Offset)
		}
		fp, saved := rules.Regs[FP]
		if saved && fp.Rule == frame.RuleOffset && fp.Offset != -8*int64(row.FP) || !saved && row.FP != 0 {
			t.Errorf("frame pointer at %#x = %+v, want %d", row.Start, row, fp.Offset)
		}
	}
	if bases[FromSP] < 10000 || bases[Signal] == 0 || bases[Outermost] == 0 {
		t.Errorf("rows by base = %v, want 10000 or more of the stack pointer, one of a signal and of a thread's start", bases)
	}
}
