package unwind

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"ustack/testdata/nodetest"
)

// members returns the addresses that a set has, by next, up to end.
func members(s *set, start, end uint32) []uint32 {
	var all []uint32
	for at := s.next(start, end); at < end; at = s.next(at+1, end) {
		all = append(all, at)
	}
	return all
}

func TestSet(t *testing.T) {
	const first = 0x1005 // no multiple of 64
	s := newSet(Span{first, first + 300})
	if got := s.next(first, first+300); got != first+300 {
		t.Errorf("next of an empty set = %#x, want %#x", got, first+300)
	}
	inside := []uint32{first, first + 1, first + 63, first + 64, first + 127, first + 191, first + 192, first + 300}
	outside := []uint32{0, first - 1, first - 64, first + 320, first + 1<<20, math.MaxUint32}
	for _, address := range slices.Concat(inside, outside, inside[:2]) {
		s.add(address)
	}
	if got := members(&s, first, first+512); !slices.Equal(got, inside) {
		t.Errorf("members = %#x, want %#x", got, inside)
	}
	for address := uint32(first - 70); address < first+400; address++ {
		if got, want := s.has(address), slices.Contains(inside, address); got != want {
			t.Errorf("has(%#x) = %t, want %t", address, got, want)
		}
	}
	for _, address := range append(outside, first+63, first+192, first+2) {
		s.remove(address)
	}
	inside = []uint32{first, first + 1, first + 64, first + 127, first + 191, first + 300}
	if got := members(&s, first, first+512); !slices.Equal(got, inside) {
		t.Errorf("members after some were removed = %#x, want %#x", got, inside)
	}
}

func TestNextOfSet(t *testing.T) {
	const first = 0x2011
	s := newSet(Span{first, first + 400})
	for _, at := range []uint32{3, 63, 64, 260} {
		s.add(first + at)
	}
	for _, tt := range []struct{ start, end, want uint32 }{
		{0, 400, 3},
		{3, 400, 3},
		{4, 400, 63},
		{64, 400, 64},
		{65, 400, 260},
		{65, 200, 200},  // none before the end
		{65, 260, 260},  // which is not searched
		{65, 258, 258},  // in the same word
		{261, 400, 400}, // none
		{261, 9000, 9000},
		{9000, 9001, 9001}, // out of range
		{5, 5, 5},          // nothing to search
		{63, 5, 5},
	} {
		if got := s.next(first+tt.start, first+tt.end); got != first+tt.want {
			t.Errorf("next from %d to %d = %d, want %d", tt.start, tt.end, got-first, tt.want)
		}
	}
	high := newSet(Span{math.MaxUint32 - 100, math.MaxUint32})
	high.add(math.MaxUint32 - 1)
	if got := members(&high, math.MaxUint32-100, math.MaxUint32); !slices.Equal(got, []uint32{math.MaxUint32 - 1}) {
		t.Errorf("members at the last address = %#x", got)
	}
	var none set
	none.add(0)
	none.remove(0)
	if none.has(0) || none.next(0, 10) != 10 {
		t.Error("a set of nothing has 0")
	}
}

// codeStart is where the code of the tests of images and flows is.
const codeStart = 0x1000

// imageOf returns an image of code.
func imageOf(code []byte) *image {
	m := newImage(Span{codeStart, codeStart + uint32(len(code))})
	m.regions = []region{{codeStart, code}}
	return m
}

func TestStartsThatCodeSays(t *testing.T) {
	code := []byte{
		0xe8, 0x0b, 0, 0, 0, // 0: call 16
		0x48, 0x8d, 0x05, 0x14, 0, 0, 0, // 5: lea 32(%rip), which is at 12: 32
		0xeb, 0x22, // 12: jmp 48
		0x74, 0x0e, // 14: je 30
		0xe8, 0x13, 0, 0, 0, // 16: call 40
		0xe9, 0, 0, 0, 0x80, // 21: jmp far away
		0xe8, 0, 0, 0, 0x70, // 26: call of what is not in the file
		0x90, // 31
	}
	code = append(code, bytes.Repeat([]byte{0x90}, 32)...)
	whole := Span{codeStart, codeStart + uint32(len(code))}
	const outOfFile = 26 + 1<<31
	for name, tt := range map[string]struct {
		part           Span
		covered        bool
		starts, likely []uint32
		tails          []Span
	}{
		"what no table covers": {whole, false, []uint32{16, 40}, []uint32{32}, []Span{{14, 48}, {26, outOfFile}}},
		"what a table covers":  {whole, true, []uint32{16, 40}, []uint32{32, 48}, nil},
		"a part":               {Span{codeStart + 12, codeStart + 17}, false, []uint32{40}, nil, []Span{{14, 48}}},
		"an empty part":        {Span{codeStart + 12, codeStart + 12}, false, nil, nil, nil},
		"no code":              {Span{codeStart - 100, codeStart}, false, nil, nil, nil},
		"more than the code":   {Span{codeStart + 16, codeStart + 1<<20}, true, []uint32{40}, nil, nil},
	} {
		m := imageOf(code)
		m.findStarts(tt.part, tt.covered)
		for _, got := range []struct {
			what      string
			got, want []uint32
		}{
			{"starts", members(&m.starts, codeStart, whole.End), tt.starts},
			{"likely starts", members(&m.likely, codeStart, whole.End), tt.likely},
		} {
			for i := range got.got {
				got.got[i] -= codeStart
			}
			if !slices.Equal(got.got, got.want) {
				t.Errorf("%s: %s = %d, want %d", name, got.what, got.got, got.want)
			}
		}
		for i := range m.tails {
			m.tails[i].Start -= codeStart
			m.tails[i].End -= codeStart
		}
		if !slices.Equal(m.tails, tt.tails) {
			t.Errorf("%s: jumps = %d, want %d", name, m.tails, tt.tails)
		}
	}
}

func TestJumpsOverStartsAreLikelyCalls(t *testing.T) {
	m := imageOf(make([]byte, 256))
	m.starts.add(codeStart + 64)
	m.tails = []Span{
		{codeStart + 16, codeStart + 40},   // in the function
		{codeStart + 17, codeStart + 200},  // to a later one
		{codeStart + 100, codeStart + 8},   // to an earlier one
		{codeStart + 101, codeStart + 64},  // to the start of its own
		{codeStart + 70, codeStart + 90},   // in the second one
		{codeStart + 30, codeStart + 5000}, // out of the code
	}
	m.findTails()
	if got, want := members(&m.likely, codeStart, codeStart+256), []uint32{codeStart + 8, codeStart + 64, codeStart + 200}; !slices.Equal(got, want) {
		t.Errorf("likely starts = %#x, want %#x", got, want)
	}
	if m.tails != nil {
		t.Errorf("jumps = %d, want none any more", m.tails)
	}
}

// TestJumpsAreBounded has as many as there may be, and one more.
func TestJumpsAreBounded(t *testing.T) {
	m := newImage(Span{0, maxRows + 64})
	for to := range uint32(maxRows + 1) {
		m.jump(to, entry)
	}
	if len(m.jumps) != maxRows || m.jumped.has(maxRows) || !m.jumped.has(maxRows-1) {
		t.Errorf("%d jumps, want %d", len(m.jumps), maxRows)
	}
	for name, covered := range map[string]bool{"covered": true, "not covered": false} {
		m = imageOf([]byte{0xeb, 0x02, 0x90, 0x90, 0x90})
		m.tails = make([]Span, maxRows)
		m.findStarts(Span{codeStart, codeStart + 5}, covered)
		if len(m.tails) != maxRows || m.likely.has(codeStart+4) != covered {
			t.Errorf("%s: %d jumps, want %d", name, len(m.tails), maxRows)
		}
	}
}

func TestCodeFromAnAddress(t *testing.T) {
	m := &image{regions: []region{{0x1000, []byte{1, 2, 3}}, {0x2000, []byte{4, 5}}}}
	for address, want := range map[uint32][]byte{
		0: nil, 0xfff: nil, 0x1000: {1, 2, 3}, 0x1002: {3}, 0x1003: nil, 0x1fff: nil, 0x2001: {5}, 0x2002: nil, math.MaxUint32: nil,
	} {
		if got := m.from(address); !bytes.Equal(got, want) {
			t.Errorf("code from %#x = %x, want %x", address, got, want)
		}
	}
}

// codeSection returns a section of code, which an option may change.
func codeSection(address, size uint64, change ...func(*elf.SectionHeader)) *elf.Section {
	h := elf.SectionHeader{Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Addr: address, Size: size}
	for _, c := range change {
		c(&h)
	}
	return &elf.Section{SectionHeader: h}
}

func TestExecutableSections(t *testing.T) {
	const last = math.MaxUint32 - maxCode // where one may begin
	for name, tt := range map[string]struct {
		sections []*elf.Section
		want     []uint64 // their addresses
	}{
		"none":                    {nil, nil},
		"by address":              {[]*elf.Section{codeSection(0x3000, 16), codeSection(0x1000, 16), codeSection(0x2000, 16)}, []uint64{0x1000, 0x2000, 0x3000}},
		"side by side":            {[]*elf.Section{codeSection(0x1000, 16), codeSection(0x1010, 16)}, []uint64{0x1000, 0x1010}},
		"that overlap":            {[]*elf.Section{codeSection(0x1000, 17), codeSection(0x1010, 16), codeSection(0x1020, 16)}, []uint64{0x1000, 0x1020}},
		"of which one has all":    {[]*elf.Section{codeSection(0x1008, 16), codeSection(0x1100, 16), codeSection(0x1000, 0x200), codeSection(0x1200, 8)}, []uint64{0x1000, 0x1200}},
		"that are compressed":     {[]*elf.Section{codeSection(0x1000, 16, func(h *elf.SectionHeader) { h.Flags |= elf.SHF_COMPRESSED })}, nil},
		"that are data":           {[]*elf.Section{codeSection(0x1000, 16, func(h *elf.SectionHeader) { h.Flags = elf.SHF_ALLOC })}, nil},
		"that the file lacks":     {[]*elf.Section{codeSection(0x1000, 16, func(h *elf.SectionHeader) { h.Type = elf.SHT_NOBITS })}, nil},
		"that are not loaded":     {[]*elf.Section{codeSection(0, 16)}, nil},
		"that are empty":          {[]*elf.Section{codeSection(0x1000, 0)}, nil},
		"that are large":          {[]*elf.Section{codeSection(0x1000, maxCode)}, []uint64{0x1000}},
		"that are too large":      {[]*elf.Section{codeSection(0x1000, maxCode+1), codeSection(0x900, 16)}, []uint64{0x900}},
		"that are huge":           {[]*elf.Section{codeSection(0x1000, math.MaxUint64), codeSection(0x900, 16)}, []uint64{0x900}},
		"at the last address":     {[]*elf.Section{codeSection(last, 16)}, []uint64{last}},
		"beyond the last address": {[]*elf.Section{codeSection(last+1, 16), codeSection(1<<32+0x1000, 16), codeSection(math.MaxUint64-8, 16)}, nil},
		"that are too large together": {
			[]*elf.Section{codeSection(0x1000, maxCode-16), codeSection(0x9000000, 16), codeSection(0x8000000, 1), codeSection(0x7000000, 1)},
			[]uint64{0x1000, 0x9000000},
		},
	} {
		var got []uint64
		for _, s := range executable(&elf.File{Sections: tt.sections}) {
			got = append(got, s.Addr)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("sections %s = %#x, want %#x", name, got, tt.want)
		}
	}
}

// words64 returns words as a file has them.
func words64(words ...uint64) []byte {
	var data []byte
	for _, w := range words {
		data = binary.LittleEndian.AppendUint64(data, w)
	}
	return data
}

const (
	ofFunction = uint64(elf.STB_GLOBAL)<<4 | uint64(elf.STT_FUNC)
	ofObject   = uint64(elf.STB_GLOBAL)<<4 | uint64(elf.STT_OBJECT)
)

// symbol returns an entry of a table of symbols.
func symbol(info, address uint64) []byte { return words64(info<<32|1, address, 8) }

func TestEntriesOfTables(t *testing.T) {
	const in = codeStart + 16
	relative := uint64(elf.R_X86_64_RELATIVE)
	for name, tt := range map[string]struct {
		of     elf.SectionType
		data   []byte
		starts []uint32
		likely []uint32
	}{
		"functions":              {elf.SHT_DYNSYM, slices.Concat(symbol(0, 0), symbol(ofFunction, in), symbol(ofFunction, in+8)), []uint32{in, in + 8}, nil},
		"an object":              {elf.SHT_DYNSYM, symbol(ofObject, in), nil, nil},
		"a function elsewhere":   {elf.SHT_DYNSYM, symbol(ofFunction, codeStart+1<<20), nil, nil},
		"a function beyond 4GiB": {elf.SHT_DYNSYM, symbol(ofFunction, 1<<32|in), nil, nil},
		"a part of a symbol":     {elf.SHT_DYNSYM, symbol(ofFunction, in)[:23], nil, nil},
		"a part of the second":   {elf.SHT_DYNSYM, append(symbol(ofFunction, in), symbol(ofFunction, in+8)[:23]...), []uint32{in}, nil},
		"pointers":               {elf.SHT_RELA, words64(0x9000, relative, in, 0x9008, relative, in+3), nil, []uint32{in, in + 3}},
		"another relocation":     {elf.SHT_RELA, words64(0x9000, uint64(elf.R_X86_64_64), in), nil, nil},
		"one with a symbol":      {elf.SHT_RELA, words64(0x9000, 1<<32|relative, in), nil, nil},
		"a negative pointer":     {elf.SHT_RELA, words64(0x9000, relative, math.MaxUint64), nil, nil},
		"a symbol, as a pointer": {elf.SHT_RELA, symbol(ofFunction, in), nil, nil},
		"nothing":                {elf.SHT_DYNSYM, nil, nil, nil},
	} {
		m := imageOf(make([]byte, 64))
		m.findEntries(tt.of, tt.data)
		starts, likely := members(&m.starts, codeStart, codeStart+64), members(&m.likely, codeStart, codeStart+64)
		if !slices.Equal(starts, tt.starts) || !slices.Equal(likely, tt.likely) {
			t.Errorf("%s: starts = %#x, %#x likely, want %#x, %#x", name, starts, likely, tt.starts, tt.likely)
		}
	}
}

// TestSymbolsOfFile has tables of a file that say where functions begin, and some that are
// not to be read. Each says so of another address.
func TestSymbolsOfFile(t *testing.T) {
	relative := uint64(elf.R_X86_64_RELATIVE)
	const data, written = elf.SHF_ALLOC, elf.SHF_ALLOC | elf.SHF_WRITE
	file, err := elf.NewFile(bytes.NewReader(nodetest.ELF(
		t,
		nodetest.Section{Name: ".dynsym", Type: elf.SHT_DYNSYM, Flags: data, Data: symbol(ofFunction, codeStart+1)},
		nodetest.Section{Name: ".rela.dyn", Type: elf.SHT_RELA, Flags: data, Data: words64(0, relative, codeStart+2)},
		nodetest.Section{Name: ".data.rel.ro", Type: elf.SHT_PROGBITS, Flags: written, Data: append(words64(codeStart+3, 1<<32|codeStart, codeStart+4), 5, codeStart>>8, 0)},
		nodetest.Section{Name: ".init_array", Type: elf.SHT_INIT_ARRAY, Flags: written, Data: words64(codeStart + 6)},
		nodetest.Section{Name: ".rodata", Type: elf.SHT_PROGBITS, Flags: data, Data: words64(codeStart + 7)},
		nodetest.Section{Name: ".bss", Type: elf.SHT_NOBITS, Flags: written, Size: 8},
		nodetest.Section{Name: ".symtab", Type: elf.SHT_SYMTAB, Data: symbol(ofFunction, codeStart+8)},
		nodetest.Section{Name: ".debug", Type: elf.SHT_PROGBITS, Flags: elf.SHF_WRITE, Data: words64(codeStart + 9)},
		nodetest.Section{Name: ".packed", Type: elf.SHT_PROGBITS, Flags: written | elf.SHF_COMPRESSED, Data: nodetest.Compressed(t, words64(codeStart+10), 0)},
		nodetest.Section{Name: ".large", Type: elf.SHT_DYNSYM, Flags: data, Data: symbol(ofFunction, codeStart+11), Size: maxTable + 1},
		nodetest.Section{Name: ".cut", Type: elf.SHT_DYNSYM, Flags: data, Data: symbol(ofFunction, codeStart+12), Size: maxTable},
	)))
	if err != nil {
		t.Fatal(err)
	}
	m := imageOf(make([]byte, 64))
	m.findSymbols(file)
	if got, want := members(&m.starts, codeStart, codeStart+64), []uint32{codeStart + 1}; !slices.Equal(got, want) {
		t.Errorf("starts = %#x, want %#x", got, want)
	}
	if got, want := members(&m.likely, codeStart, codeStart+64), []uint32{codeStart + 2, codeStart + 3, codeStart + 4, codeStart + 6}; !slices.Equal(got, want) {
		t.Errorf("likely starts = %#x, want %#x", got, want)
	}
}
