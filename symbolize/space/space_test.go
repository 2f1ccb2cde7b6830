package space

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/symbolize/reader"
)

// made is memory, by its start.
type made map[uint64][]byte

func (m made) ReadAt(p []byte, address uint64) (int, error) {
	for start, data := range m {
		if address >= start && address < start+uint64(len(data)) {
			n := copy(p, data[address-start:])
			if n < len(p) {
				return n, ErrUnmapped
			}
			return n, nil
		}
	}
	return 0, ErrUnmapped
}

func (m made) NextData(address uint64) (uint64, bool) {
	next, ok := uint64(0), false
	for start, data := range m {
		if at := max(start, address); at < start+uint64(len(data)) && (!ok || at < next) {
			next, ok = at, true
		}
	}
	return next, ok
}

func TestRegionsAreFoundByAddress(t *testing.T) {
	s := New(made{}, Layout{
		Regions:  []Region{{Start: 0x1000, End: 0x3000, Write: true}, {Start: 0x3000, End: 0x4000}, {Start: 0x8000, End: 0x9000, Exec: true}},
		Mappings: []Mapping{{Start: 0x3000, End: 0x4000, Path: "/data"}},
	}, Finder{Files: new(reader.Reader)})
	for address, want := range map[uint64]uint64{0: 0, 0xfff: 0, 0x1000: 0x1000, 0x2fff: 0x1000, 0x3000: 0x3000, 0x4000: 0, 0x8fff: 0x8000, 0x9000: 0, 1 << 63: 0} {
		if got, ok := s.Region(address); got.Start != want || ok != (want != 0) {
			t.Errorf("region of %#x = %+v, %v, want the one at %#x", address, got, ok, want)
		}
	}
	if got, _ := s.Region(0x3000); got.File != "/data" {
		t.Errorf("region = %+v, want its file", got)
	}
	if len(s.Modules()) != 0 {
		t.Errorf("modules = %v, want none: the file has no code", s.Modules())
	}
	if _, ok := s.Part(0x3000); ok {
		t.Error("a file without code is a module")
	}
}

// TestWhatACoreDoesNotMentionIsThere has files without regions: gdb leaves out code that
// is the same as in its file.
func TestWhatACoreDoesNotMentionIsThere(t *testing.T) {
	const code, data, head = 0x10000, 0x20000, 0x30000
	m := made{head: []byte("no magic at all")}
	s := New(m, Layout{Mappings: []Mapping{
		{Start: code, End: code + 0x1000, Path: "/nonexistent/lib.so"},
		{Start: code + 0x1000, End: code + 0x2000, Offset: 0x1000, Path: "/nonexistent/lib.so"},
		{Start: data, End: data + 0x1000, Path: "memfd:data"},
		{Start: head, End: head + 0x1000, Path: "/nonexistent/text"},
	}}, Finder{Files: new(reader.Reader)})
	for address, exec := range map[uint64]bool{code: true, code + 0x1fff: true, data: false, head: false} {
		if r, ok := s.Region(address); !ok || r.Exec != exec || r.Write {
			t.Errorf("region of %#x = %+v, %v, want one that runs = %v", address, r, ok, exec)
		}
	}
	if len(s.Modules()) != 1 || !errors.Is(s.Modules()[0].Err, errNotFound) {
		t.Errorf("modules = %+v, want the library, which is not found", s.Modules())
	}
	if _, err := s.ReadAt(make([]byte, 8), code); !errors.Is(err, errNotFound) || !errors.Is(err, ErrUnmapped) {
		t.Errorf("read from it: %v, want %v and %v", err, ErrUnmapped, errNotFound)
	}
	p, _ := s.Part(code + 0x1008)
	if f := p.Native(code+0x1008, code+0x1008); f.Module != "/nonexistent/lib.so" || f.Offset != 0x1008 || f.Name != "" {
		t.Errorf("frame = %+v, want the offset in the file", f)
	}
}

func TestWordsAndTextsEndWithMemory(t *testing.T) {
	const at, size = 0x1000, 0x400
	m := made{at: make([]byte, size), 0x8000: make([]byte, maxString+0x1000)}
	copy(m[at][8:], "text\x00more")
	copy(m[at][size-4:], "cut!")
	for i := range m[0x8000] {
		m[0x8000][i] = 'x'
	}
	binary.LittleEndian.PutUint64(m[at], 0x1122334455667788)
	s := New(m, Layout{}, Finder{Files: new(reader.Reader)})
	if w, err := s.Word(at); err != nil || w != 0x1122334455667788 {
		t.Errorf("word = %#x, %v", w, err)
	}
	if _, err := s.Word(at + size - 4); !errors.Is(err, ErrUnmapped) {
		t.Errorf("word at the end: %v, want %v", err, ErrUnmapped)
	}
	if text, err := s.CString(at + 8); err != nil || text != "text" {
		t.Errorf("text = %q, %v", text, err)
	}
	if text, err := s.CString(at + size - 4); !errors.Is(err, ErrUnmapped) {
		t.Errorf("text at the end = %q, %v, want %v", text, err, ErrUnmapped)
	}
	if text, err := s.CString(0x8000); err != nil || len(text) < maxString || len(text) > maxString+0x100 {
		t.Errorf("endless text has %d bytes, %v, want %d", len(text), err, maxString)
	}
	if next, ok := s.NextData(at + size); !ok || next != 0x8000 {
		t.Errorf("next data = %#x, %v, want %#x", next, ok, 0x8000)
	}
}

// firstStack makes the kernel's part of a first stack.
func firstStack(words ...uint64) (made, Layout) {
	const base, size = 0x7000, 0x2000
	l := Layout{Auxv: []Aux{{auxRoom, base + size - 0x100}, {auxEntry, 0x400000}, {0, 0}}}
	for _, a := range l.Auxv {
		words = append(words, a.Type, a.Value)
	}
	data := make([]byte, size)
	for i, w := range words {
		binary.LittleEndian.PutUint64(data[0x1000+8*i:], w)
	}
	copy(data[0x1f80:], "program\x00A=1\x00")
	return made{base: data}, l
}

func TestDamagedFirstStackHasNoArguments(t *testing.T) {
	const program, variable = 0x7000 + 0x1f80, 0x7000 + 0x1f88
	for name, tt := range map[string]struct {
		words []uint64
		spoil func(*Layout)
		want  string
	}{
		"whole":               {[]uint64{1, program, 0, variable, 0}, func(*Layout) {}, ""},
		"absurd count":        {[]uint64{1 << 40, program, 0, variable, 0}, func(*Layout) {}, "read the program's arguments"},
		"pointer to nowhere":  {[]uint64{1, 0x99, 0, variable, 0}, func(*Layout) {}, "read string at 0x99"},
		"no vector":           {[]uint64{1, program, 0, variable, 0}, func(l *Layout) { l.Auxv = nil }, "no auxiliary vector"},
		"another vector":      {[]uint64{1, program, 0, variable, 0}, func(l *Layout) { l.Auxv[1].Value++ }, "no auxiliary vector before"},
		"vector not there":    {[]uint64{1, program, 0, variable, 0}, func(l *Layout) { l.Auxv[0].Value = 1 << 50 }, "find the program's arguments"},
		"vector at the start": {[]uint64{1, program, 0, variable, 0}, func(l *Layout) { l.Auxv[0].Value = 8 }, "no auxiliary vector"},
	} {
		m, l := firstStack(tt.words...)
		tt.spoil(&l)
		arguments, err := New(m, l, Finder{}).Arguments()
		if tt.want == "" && (err != nil || !slices.Equal(arguments, []string{"program"})) {
			t.Errorf("%s: arguments = %q, %v, want program", name, arguments, err)
		}
		if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: arguments = %q, %v, want an error with %q", name, arguments, err, tt.want)
		}
	}
}

// note returns an ELF note.
func note(kind uint32, name, content string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(name)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(content)))
	b = binary.LittleEndian.AppendUint32(b, kind)
	pad := func(s string) string { return s + strings.Repeat("\x00", -len(s)&3) }
	return append(b, pad(name)+pad(content)...)
}

func TestBuildIDIsAmongNotes(t *testing.T) {
	id := note(buildIDType, "GNU\x00", "\x01\x02\x03")
	endless := slices.Clone(id)
	binary.LittleEndian.PutUint32(endless[4:], 1<<31)
	for name, tt := range map[string]struct {
		notes []byte
		want  string
	}{
		"alone":          {id, "010203"},
		"after others":   {slices.Concat(note(1, "GNU\x00", "abi"), note(buildIDType, "Go\x00", "x"), id), "010203"},
		"none":           {note(1, "GNU\x00", "abi"), ""},
		"cut":            {id[:len(id)-1], ""},
		"longer than it": {endless, ""},
		"nothing":        {nil, ""},
	} {
		if got := noteBuildID(tt.notes); got != tt.want {
			t.Errorf("%s: build ID = %q, want %q", name, got, tt.want)
		}
	}
}

func TestBuildIDIsReadFromMemory(t *testing.T) {
	const at = 0x10000
	content := string([]byte{0xab, 0xcd, 0xef})
	image := func(programs uint16, offset uint64) []byte {
		b := make([]byte, 0x400)
		header := elf.Header64{Phoff: 64, Phnum: programs}
		copy(header.Ident[:], elf.ELFMAG)
		binary.Encode(b, binary.LittleEndian, header)
		binary.Encode(b[64:], binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_NOTE), Off: offset, Filesz: 1 << 40})
		copy(b[0x200:], note(buildIDType, "GNU\x00", content))
		return append(b, make([]byte, maxNote)...)
	}
	for name, tt := range map[string]struct {
		image []byte
		want  string
	}{
		"whole":              {image(1, 0x200), hex.EncodeToString([]byte(content))},
		"notes elsewhere":    {image(1, 1<<50), ""},
		"too many programs":  {image(1<<15, 0x200), ""},
		"not an ELF file":    {make([]byte, 0x400), ""},
		"only half a header": {image(1, 0x200)[:32], ""},
	} {
		s := New(made{at: tt.image}, Layout{
			Regions:  []Region{{Start: at, End: at + 0x1000, Exec: true}},
			Mappings: []Mapping{{Start: at, End: at + 0x1000, Path: "/nonexistent/program"}},
		}, Finder{Files: new(reader.Reader)})
		if got := s.Modules()[0].buildID; got != tt.want {
			t.Errorf("%s: build ID = %q, want %q", name, got, tt.want)
		}
	}
}

// TestMappedDataIsKnown has files of data that are mapped like code. One that holds the
// program's entry point replaced the program.
func TestMappedDataIsKnown(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(data, make([]byte, 1<<13), 0o600); err != nil {
		t.Fatal(err)
	}
	l := Layout{
		Regions:  []Region{{Start: 0x1000, End: 0x2000, Exec: true}},
		Mappings: []Mapping{{Start: 0x1000, End: 0x2000, Path: data}, {Start: 0x5000, End: 0x6000, Path: data}},
	}
	for entry, want := range map[uint64]bool{0x8000: true, 0x1800: false} {
		l.Auxv = []Aux{{auxEntry, entry}}
		s := New(made{}, l, Finder{Files: new(reader.Reader)})
		if got := s.Modules(); len(got) != 1 || got[0].IsData() != want {
			t.Errorf("entry at %#x: modules = %+v, want one that is data: %v", entry, got, want)
		}
	}
}

func TestProgramComesFirst(t *testing.T) {
	mappings := []Mapping{
		{Start: 0x1000, End: 0x2000, Path: "/nonexistent/a.so"},
		{Start: 0x5000, End: 0x6000, Path: "/nonexistent/program"},
		{Start: 0x8000, End: 0x9000, Path: "/nonexistent/b.so"},
		{Start: 0x9000, End: 0xa000, Offset: 0x1000, Path: "/nonexistent/a.so"},
	}
	l := Layout{Mappings: mappings, Auxv: []Aux{{auxEntry, 0x5800}}}
	for _, m := range mappings {
		l.Regions = append(l.Regions, Region{Start: m.Start, End: m.End, Exec: true})
	}
	s := New(made{}, l, Finder{Files: new(reader.Reader)})
	var got []string
	for _, m := range s.Modules() {
		got = append(got, m.Path)
	}
	if want := []string{"/nonexistent/program", "/nonexistent/a.so", "/nonexistent/b.so"}; !slices.Equal(got, want) {
		t.Errorf("modules = %q, want %q", got, want)
	}
	if p, ok := s.Part(0x9800); !ok || p.Module != s.Modules()[1] || p.Offset != 0x1000 {
		t.Errorf("part = %+v, %v, want the second of a.so", p, ok)
	}
}

// TestWritableWordsAreThoseThatCanBeRead has a region without memory between two others,
// one that is read-only, and one that ends within a block.
func TestWritableWordsAreThoseThatCanBeRead(t *testing.T) {
	words := func(values ...uint64) (data []byte) {
		for _, v := range values {
			data = binary.LittleEndian.AppendUint64(data, v)
		}
		return data
	}
	m := made{
		0x1000: words(1, 2), 0x2000: words(99), 0x200000: words(3), 0x400000: append(words(4), 5, 6, 7),
	}
	s := New(m, Layout{Regions: []Region{
		{Start: 0x1000, End: 0x1010, Write: true},
		{Start: 0x2000, End: 0x2008},
		{Start: 0x3000, End: 0x4000, Write: true},
		{Start: 0x100000, End: 0x300000, Write: true},
		{Start: 0x400000, End: 0x400010, Write: true},
	}}, Finder{Files: new(reader.Reader)})
	ctx, cancel := context.WithCancel(t.Context())
	got := map[uint64]uint64{}
	for address, word := range s.WritableWords(ctx) {
		got[address] = word
	}
	if want := (map[uint64]uint64{0x1000: 1, 0x1008: 2, 0x200000: 3, 0x400000: 4}); !maps.Equal(got, want) {
		t.Errorf("words = %#x, want %#x", got, want)
	}
	for address := range s.WritableWords(ctx) {
		if address != 0x1000 {
			t.Errorf("first word at %#x, want 0x1000", address)
		}
		break
	}
	cancel()
	for address := range s.WritableWords(ctx) {
		t.Errorf("a word at %#x, want none once the context is done", address)
	}
}
