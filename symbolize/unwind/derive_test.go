package unwind

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"testing"

	"ustack/symbolize/unwind/x86"
	"ustack/testdata/nodetest"
)

// A tally counts instructions by what was derived for them.
type tally struct{ equal, unknown, wrong int }

func (n tally) all() int { return n.equal + n.unknown + n.wrong }

// add compares a derived state with what the table says.
func (n *tally) add(s state, want Row) {
	depth, fp := int32(want.Distance)*8, int32(want.FP)*8
	// Where one has the frame pointer in the register, it may be on the stack, too.
	saved := s.saved == fp || s.saved > 0 && fp == 0 || s.saved == 0 && fp > s.depth
	switch {
	case !s.known():
		n.unknown++
	case want.Base == FromSP && s.depth == depth && saved, want.Base == FromFP && s.frame == depth && saved,
		want.Base == FromFP && s.frame == 0 && s.depth > 0 && saved:
		n.equal++
	default:
		n.wrong++
	}
}

// TestDerivedStatesAreThoseOfTables derives the states of code that a table describes, and
// compares each instruction's. Of the table, only functions' starts are used, or nothing.
func TestDerivedStatesAreThoseOfTables(t *testing.T) {
	const libraries = "/usr/lib/x86_64-linux-gnu/"
	for _, tt := range []struct {
		file     string
		starts   bool
		minEqual float64 // percent
		maxWrong float64
	}{
		{libraries + "libc.so.6", true, 99.5, 0.1},
		{libraries + "libc.so.6", false, 99, 0.3},
		{libraries + "libstdc++.so.6", true, 99.5, 0.1},
		{libraries + "libstdc++.so.6", false, 99, 0.3},
		{nodetest.Node(t, nodetest.Versions[len(nodetest.Versions)-1]), true, 99, 0.1},
	} {
		f, err := elf.Open(tt.file)
		if err != nil {
			t.Error(err)
			continue
		}
		n := compareStates(t, f, tt.starts)
		f.Close()
		equal, wrong := 100*float64(n.equal)/float64(n.all()), 100*float64(n.wrong)/float64(n.all())
		t.Logf("%s, starts %t: %.3f %% equal, %.3f %% wrong of %d instructions", filepath.Base(tt.file), tt.starts, equal, wrong, n.all())
		if equal < tt.minEqual || wrong > tt.maxWrong || n.all() < 100_000 {
			t.Errorf("%s: want %v %% equal or more, %v %% wrong or less, of 100000 or more", tt.file, tt.minEqual, tt.maxWrong)
		}
	}
}

// compareStates derives the states of all code of a file.
func compareStates(t *testing.T, file *elf.File, starts bool) (n tally) {
	t.Helper()
	table, err := findSection(file)
	if err != nil {
		t.Fatal(err)
	}
	rules, _ := rulesOf(table)
	var parts []part
	sections := executable(file)
	for _, s := range sections {
		parts = append(parts, part{Span{uint32(s.Addr), uint32(s.Addr + s.Size)}, s})
	}
	m := readAll(file, sections, parts)
	if starts {
		noteStarts(m, table)
	}
	f := flow{image: m}
	for _, p := range slices.Backward(parts) {
		for _, function := range slices.Backward(m.functions(p.Span)) {
			f.analyze(function.Start, function.End)
			first := sort.Search(len(rules.Rows), func(i int) bool { return rules.Rows[i].Start > function.Start })
			rows := rules.Rows[max(first, 1)-1:]
			for at, mark := range f.marks {
				want := rowAt(&rows, function.Start+uint32(at))
				if mark == inside || want.Base != FromSP && want.Base != FromFP {
					continue
				}
				s := state{}
				if mark&visited != 0 {
					s = f.states[mark&^visited]
				}
				n.add(s, want)
			}
		}
	}
	return n
}

// noteStarts notes where functions of a table begin that are called: not those that
// compilers have split off.
func noteStarts(m *image, table section) {
	s := scan(table)
	for _, fn := range s.functions {
		if r := s.rows[fn.rows.Start]; r.Base == Prologue || r.Base == FromSP && r.Distance == 1 && r.FP == 0 {
			m.starts.add(fn.start)
		}
	}
}

// rowAt returns what the first of rows, by address, that are for an address or for what is
// before it say of it. They are left in rows.
func rowAt(rows *[]Row, address uint32) Row {
	for len(*rows) > 1 && (*rows)[1].Start <= address {
		*rows = (*rows)[1:]
	}
	r := (*rows)[0]
	switch {
	case r.Start > address:
		return Row{}
	case r.Base == Prologue:
		for _, p := range slices.Backward(prologue[:]) {
			if address-r.Start >= p.Start {
				return p
			}
		}
	}
	return r
}

// TestRowsOfCodeAreThoseOfItsTable compiles a program with tables and without, and compares
// what the rows say of each instruction.
func TestRowsOfCodeAreThoseOfItsTable(t *testing.T) {
	all := 0
	for _, flags := range [][]string{
		{"-O0"},
		{"-O1"},
		{"-O2"},
		{"-O3"},
		{"-Os"},
		{"-O2", "-fstack-clash-protection"},
		{"-O2", "-mavx2", "-ftree-vectorize"},
		{"-O2", "-mforce-drap", "-mstackrealign", "-mincoming-stack-boundary=3"},
		{"-O0", "-mforce-drap", "-mstackrealign", "-mincoming-stack-boundary=3"},
	} {
		with := compile(t, append(flags, "-fasynchronous-unwind-tables")...)
		without := compile(t, append(flags, "-fno-asynchronous-unwind-tables", "-fno-unwind-tables")...)
		for _, fn := range with.functions {
			for at := fn.start; at < fn.end; all++ {
				rows, derived := with.rows.Rows, without.rows.Rows
				want, got := rowAt(&rows, at), rowAt(&derived, at)
				same := got.Base == want.Base && got.Distance == want.Distance && (got.FP == want.FP || want.FP > uint8(want.Distance))
				if want.Base == Register+10 && got.Base != want.Base { // r10 has the same
					same = got == Row{got.Start, 1, 0, FromSP} || got.Base == SavedAtFP && got.FP == want.FP
				}
				if !same {
					t.Errorf("%s: row at %#x = %+v, want %+v", flags, at, got, want)
				}
				at += uint32(x86.Decode(with.code[at-with.start:]).Length)
			}
		}
	}
	if all < 1000 {
		t.Errorf("%d instructions, want 1000 or more", all)
	}
}

// A compiled program has its code, the functions that its table describes, and its rows.
type compiled struct {
	start     uint32
	code      []byte
	functions []function
	rows      *Rules
}

// compile compiles an add-on, without what the compiler adds to it.
func compile(t *testing.T, flags ...string) (c compiled) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program.so")
	node := nodetest.Node(t, nodetest.Versions[len(nodetest.Versions)-1])
	args := append([]string{
		"-shared", "-fPIC", "-fomit-frame-pointer", "-nostartfiles", "-isystem", filepath.Join(filepath.Dir(node), "..", "include", "node"),
		"-o", path, nodetest.Program("chain.c"),
	}, flags...)
	if out, err := exec.CommandContext(t.Context(), "gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	f, err := elf.NewFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := f.Section(".text")
	c.start = uint32(text.Addr)
	if c.code, err = text.Data(); err != nil {
		t.Fatal(err)
	}
	if c.rows, err = ReadRules(file); err != nil {
		t.Fatal(err)
	}
	if table, err := findSection(f); err == nil {
		s := scan(table)
		c.functions = slices.DeleteFunc(s.functions, func(fn function) bool { return fn.start < c.start || fn.end > c.start+uint32(len(c.code)) })
	}
	return c
}

// textAddress is where the code of textRules is loaded: behind what nodetest.ELF writes first.
const textAddress = 64 + 56

// textRules reads the rules of a file that has code only.
func textRules(t testing.TB, code []byte) *Rules {
	t.Helper()
	image := nodetest.ELF(t, nodetest.Section{Name: ".text", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Data: code})
	rules, err := ReadRules(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func TestRowsOfCode(t *testing.T) {
	sp := func(start uint32, distance uint16, fp uint8) Row { return Row{start, distance, fp, FromSP} }
	unknown := func(start uint32) Row { return Row{Start: start} }
	for name, tt := range map[string]struct {
		code []byte
		want []Row // from the code's start
	}{
		"a leaf": {[]byte{0x31, 0xc0, 0xc3}, []Row{sp(0, 1, 0)}},
		"pushes": {
			[]byte{0x55, 0x53, 0x48, 0x83, 0xec, 0x18, 0x48, 0x83, 0xc4, 0x18, 0x5b, 0x5d, 0xc3},
			[]Row{sp(0, 1, 0), sp(1, 2, 2), sp(2, 3, 2), sp(6, 6, 2), sp(10, 3, 2), sp(11, 2, 2), sp(12, 1, 0)},
		},
		"a frame pointer": {
			[]byte{0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x29, 0xc4, 0x48, 0x8b, 0x5d, 0xf8, 0xc9, 0xc3},
			[]Row{{Base: Prologue}, sp(13, 1, 0)},
		},
		"an aligned frame": {
			[]byte{0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xe0, 0x90, 0xc9, 0xc3},
			[]Row{{Base: Prologue}, sp(10, 1, 0)},
		},
		"an early return": { // test; je 8; add, ret, 8: add, ret
			[]byte{0x50, 0x85, 0xff, 0x74, 0x05, 0x48, 0x83, 0xc4, 0x08, 0xc3, 0x48, 0x83, 0xc4, 0x08, 0xc3},
			[]Row{sp(0, 1, 0), sp(1, 2, 0), sp(9, 1, 0), sp(10, 2, 0), sp(14, 1, 0)},
		},
		"cases of a table": { // push; jmp *rax; pop, ret; pop, ret
			[]byte{0x53, 0xff, 0xe0, 0x5b, 0xc3, 0x5b, 0xc3},
			[]Row{sp(0, 1, 0), sp(1, 2, 0), sp(4, 1, 0), sp(5, 2, 0), sp(6, 1, 0)},
		},
		"what only its end tells": { // ud2; nop; add 24; ret
			[]byte{0x0f, 0x0b, 0x90, 0x48, 0x83, 0xc4, 0x18, 0xc3},
			[]Row{sp(0, 1, 0), sp(3, 4, 0), sp(7, 1, 0)},
		},
		"a loop that moves the stack pointer": { // push; 1: sub 0x1000; cmp r11; jne 1; add 0x3000; pop; ret
			[]byte{
				0x53, 0x48, 0x81, 0xec, 0, 0x10, 0, 0, 0x4c, 0x39, 0xdc, 0x75, 0xf4,
				0x48, 0x81, 0xc4, 0, 0x30, 0, 0, 0x5b, 0xc3,
			},
			[]Row{sp(0, 1, 0), unknown(1), sp(13, 2+0x3000/8, 0), sp(20, 2, 0), sp(21, 1, 0)},
		},
		"a switch of stacks":           {[]byte{0x48, 0x89, 0xfc, 0x58, 0xc3}, []Row{sp(0, 1, 0), unknown(3)}},
		"a frame pointer that is lost": {[]byte{0x31, 0xed, 0x90, 0xeb, 0xfd}, []Row{sp(0, 1, 0), unknown(2)}},
		"no instruction":               {[]byte{0x06, 0x06, 0x06}, []Row{unknown(0)}},
	} {
		t.Run(name, func(t *testing.T) {
			// A function before it calls it.
			caller := []byte{0xe8, 27, 0, 0, 0, 0xc3}
			code := append(append(caller, bytes.Repeat([]byte{0x90}, 32-len(caller))...), tt.code...)
			got := textRules(t, code).Rows
			want := []Row{sp(textAddress, 1, 0)}
			for _, r := range append(slices.Clone(tt.want), unknown(uint32(len(tt.code)))) {
				r.Start += textAddress + 32
				if last := want[len(want)-1]; !last.says(r) {
					want = append(want, r)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("rows = %+v, want %+v", got, want)
			}
		})
	}
}

// TestRowsOfCodeJoinThoseOfATable leaves a function out of a table.
func TestRowsOfCodeJoinThoseOfATable(t *testing.T) {
	rules, gaps := rulesOf(sectionOf(table("zR", pushes...)))
	if want := []Span{{0, codeAddress}, {codeAddress + codeSize, 1<<32 - 1}}; !slices.Equal(gaps, want) {
		t.Errorf("gaps = %#x, want %#x", gaps, want)
	}
	const before = codeAddress - 0x20
	derived := []Row{{before, 1, 0, FromSP}, {before + 1, 2, 0, FromSP}, {Start: codeAddress}, {codeAddress + codeSize, 1, 0, FromSP}, {Start: codeAddress + codeSize + 9}}
	want := slices.Concat(derived[:2], rules.Rows[:3], derived[3:])
	rules.merge(derived)
	if !slices.Equal(rules.Rows, want) {
		t.Errorf("rows = %+v, want %+v", rules.Rows, want)
	}
	if want := []Span{{before + 1, codeAddress + codeSize}}; !slices.Equal(rules.Frameless, want) {
		t.Errorf("frameless = %#x, want %#x", rules.Frameless, want)
	}
}

func TestSkippedCodeIsLeftOut(t *testing.T) {
	got := without([]Span{{10, 20}, {30, 40}}, []Span{{15, 32}, {34, 36}, {}})
	if want := []Span{{10, 15}, {32, 34}, {36, 40}}; !slices.Equal(got, want) {
		t.Errorf("spans = %v, want %v", got, want)
	}
}

// FuzzCode derives rows from any code.
func FuzzCode(f *testing.F) {
	if libc, err := os.Open("/usr/lib/x86_64-linux-gnu/libc.so.6"); err == nil {
		e, err := elf.NewFile(libc)
		if err != nil {
			f.Fatal(err)
		}
		code, err := e.Section(".text").Data()
		if err != nil {
			f.Fatal(err)
		}
		for at := 0; at+512 < len(code); at += len(code) / 50 {
			f.Add(code[at : at+512])
		}
		libc.Close()
	}
	f.Fuzz(func(t *testing.T, code []byte) {
		if len(code) == 0 {
			return
		}
		rules := textRules(t, code)
		for i, r := range rules.Rows {
			if r.Start < textAddress || r.Start > textAddress+uint32(len(code)) || i > 0 && r.Start <= rules.Rows[i-1].Start {
				t.Fatalf("row %d = %+v of %d bytes, after %+v", i, r, len(code), rules.Rows[max(i, 1)-1])
			}
		}
	})
}
