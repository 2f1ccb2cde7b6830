package unwind

import (
	"bytes"
	"debug/elf"
	"os"
	"slices"
	"testing"

	"ustack/testdata/nodetest"
)

// TestRowsOfLinkedCalls makes rows of instructions for arm64.
func TestRowsOfLinkedCalls(t *testing.T) {
	const fp, link, sp = 29, 30, 31
	entry := Row{Base: FromSP}
	saveBoth := []byte{0x41, 0x0e, 32, 0x80 | fp, 4, 0x80 | link, 3}
	for name, tt := range map[string]struct {
		instructions []byte
		want         []Row
	}{
		"none":             {nil, []Row{entry}},
		"a frame record":   {saveBoth, []Row{entry, {4, 4, 4, FromSP}}},
		"and restored":     {append(slices.Clone(saveBoth), 0x42, 0xc0|fp, 0xc0|link, 0x0e, 0), []Row{entry, {4, 4, 4, FromSP}, {12, 0, 0, FromSP}}},
		"signed":           {append([]byte{0x41, 0x2d}, saveBoth...), []Row{entry, {8, 4, 4, FromSP}}},
		"by frame pointer": {append(slices.Clone(saveBoth), 0x0c, fp, 32), []Row{entry, {4, 4, 4, FromFP}}},
		"only the link":    {[]byte{0x41, 0x0e, 16, 0x80 | link, 2}, []Row{entry, {4, savedLink(2, 2), 0, LinkSaved}}},
		"a large frame":    {[]byte{0x0e, 0x80, 0x20, 0x05, fp, 0x80, 4, 0x05, link, 0xff, 3}, []Row{{0, 2, 2, FromFP}}},
		"apart":            {[]byte{0x0e, 32, 0x80 | fp, 4, 0x80 | link, 2}, []Row{{}}},
		"only the pointer": {[]byte{0x0e, 16, 0x80 | fp, 2}, []Row{{}}},
		"no caller":        {[]byte{0x07, link}, []Row{{Base: Outermost}}},
		"another register": {[]byte{0x0c, 10, 16}, []Row{{}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &common{arch: ArchOf(elf.EM_AARCH64), codeAlignment: 4, dataAlignment: -8, returns: link}
			first := machine{common: c}
			if err := first.run([]byte{0x0c, sp, 0}); err != nil {
				t.Fatal(err)
			}
			c.initial = first.rules
			m := machine{common: c, rules: c.initial}
			if err := m.run(tt.instructions); err != nil {
				t.Fatal(err)
			}
			m.emit()
			if !slices.Equal(m.rows, tt.want) {
				t.Errorf("rows = %+v, want %+v", m.rows, tt.want)
			}
		})
	}
}

func TestSignsAreLeftOut(t *testing.T) {
	// After an operand of each kind, 0x2d is an operand, and then an instruction.
	for _, before := range [][]byte{
		{0x41},
		{0x80 | 29, 0x2d},
		{0xc0 | 30},
		{0x02, 0x2d},
		{0x03, 0x2d, 0x2d},
		{0x04, 0x2d, 0x2d, 0x2d, 0x2d},
		{0x05, 0xad, 0x2d, 0x2d},
		{0x06, 0x2d},
		{0x07, 0x2d},
		{0x09, 0x2d, 0x2d},
		{0x0a},
		{0x0b},
		{0x0c, 0x2d, 0x2d},
		{0x0e, 0x2d},
		{0x0f, 2, 0x2d, 0x2d},
		{0x10, 0x2d, 1, 0x2d},
		{0x11, 0x2d, 0xad, 0x2d},
		{0x2e, 0x2d},
	} {
		signed := append(slices.Clone(before), 0x2d, 0x41, 0x2d)
		want := append(slices.Clone(before), 0, 0x41, 0)
		if got := withoutSigns(signed); !bytes.Equal(got, want) {
			t.Errorf("% x without signs = % x, want % x", signed, got, want)
		}
	}
	for _, bad := range [][]byte{{0x3f, 0x2d}, {0x0f, 9, 0x2d}, {0x05}, {0x04, 1}} {
		if got := withoutSigns(bad); !bytes.Equal(got, bad) {
			t.Errorf("% x without signs = % x", bad, got)
		}
	}
}

// TestLinkedCallerIsFound unwinds with and without the stack pointer, with a signed address.
func TestLinkedCallerIsFound(t *testing.T) {
	arch := ArchOf(elf.EM_AARCH64)
	c := Cursor{Arch: arch, Signs: 0x7f << 48}
	c.Set(0x7f<<48|codeAddress, stackAddress, stackAddress+8)
	if c.PC != codeAddress || c.SP() != stackAddress {
		t.Errorf("cursor is at %#x with sp %#x", c.PC, c.SP())
	}
	c.Climb(codeAddress, stackAddress+8, stackAddress+64)
	if sp, known := c.Get(arch.SP); known || c.SP() != 0 {
		t.Errorf("sp = %#x is known in the caller of a frame that may be anywhere", sp)
	}
	if c.FP() != stackAddress+64 {
		t.Errorf("fp = %#x", c.FP())
	}
	x := Cursor{Arch: x86Arch}
	if x.Climb(codeAddress, stackAddress, stackAddress+64); x.SP() != stackAddress+16 {
		t.Errorf("sp = %#x on x86-64, want it above the two words of the frame", x.SP())
	}
}

// TestProgramsStartHasNoCaller although no table describes it, as in Node.js 16.
func TestProgramsStartHasNoCaller(t *testing.T) {
	for _, version := range nodetest.VersionsFor("arm64") {
		t.Run(version, func(t *testing.T) {
			file, err := os.Open(nodetest.NodeFor(t, version, "arm64"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			f, err := elf.NewFile(file)
			if err != nil {
				t.Fatal(err)
			}
			u, err := New(file)
			if err != nil {
				t.Fatal(err)
			}
			rules, err := ReadRules(file)
			if err != nil {
				t.Fatal(err)
			}
			rows := rules.Rows
			for _, tt := range []struct {
				at        uint64
				outermost bool
			}{{f.Entry, true}, {f.Entry + startBytes - 4, true}, {f.Entry + startBytes, false}} {
				if row := rowAt(&rows, uint32(tt.at)); (row.Base == Outermost) != tt.outermost {
					t.Errorf("row at %#x = %+v, want the outermost: %t", tt.at-f.Entry, row, tt.outermost)
				}
				c := Cursor{Arch: ArchOf(f.Machine), PC: tt.at, Leaf: true}
				if _, err := u.Caller(c, tt.at, scramble); (err == ErrOutermost) != tt.outermost {
					t.Errorf("caller of %#x: %v, want the outermost: %t", tt.at-f.Entry, err, tt.outermost)
				}
			}
		})
	}
}
