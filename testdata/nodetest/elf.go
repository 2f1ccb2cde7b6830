package nodetest

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"os"
	"testing"

	"ustack/symbolize/elfsym"
)

// OpenELF opens the ELF file at path until the test ends.
func OpenELF(t testing.TB, path string) *elfsym.File {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elfsym.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// A Section is one of a small ELF file for attacks on its readers.
type Section struct {
	Name  string
	Type  elf.SectionType
	Flags elf.SectionFlag
	Link  uint32
	Data  []byte
	Size  uint64 // what the header says; len(Data) if zero
}

// ELF returns a shared object for x86-64 that has these sections, from number 1
// on, and the section of their names behind them. Its only segment loads the
// whole file at its offset.
func ELF(t testing.TB, sections ...Section) []byte {
	t.Helper()
	const header, segment = 64, 56
	all := append([]Section{{}}, sections...)
	all = append(all, Section{Name: ".shstrtab", Type: elf.SHT_STRTAB})
	names := []byte{0}
	for _, s := range all {
		names = append(append(names, s.Name...), 0)
	}
	all[len(all)-1].Data = names
	var body, table bytes.Buffer
	name := uint32(1)
	for _, s := range all {
		size := s.Size
		if size == 0 {
			size = uint64(len(s.Data))
		}
		write(t, &table, elf.Section64{
			Name: name, Type: uint32(s.Type), Flags: uint64(s.Flags), Link: s.Link,
			Addr: uint64(header + segment + body.Len()), Off: uint64(header + segment + body.Len()), Size: size,
		})
		name += uint32(len(s.Name)) + 1
		body.Write(s.Data)
	}
	var file bytes.Buffer
	write(t, &file, elf.Header64{
		Ident:   [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:    uint16(elf.ET_DYN),
		Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Ehsize: header,
		Phoff: header, Phentsize: segment, Phnum: 1,
		Shoff: uint64(header + segment + body.Len()), Shentsize: 64, Shnum: uint16(len(all)), Shstrndx: uint16(len(all) - 1),
	})
	whole := uint64(header + segment + body.Len() + table.Len())
	write(t, &file, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Filesz: whole, Memsz: whole})
	return append(append(file.Bytes(), body.Bytes()...), table.Bytes()...)
}

// Compressed returns data as a section with the flag SHF_COMPRESSED holds it. Its
// header announces that many bytes; len(data) if zero.
func Compressed(t testing.TB, data []byte, announced uint64) []byte {
	t.Helper()
	if announced == 0 {
		announced = uint64(len(data))
	}
	var b bytes.Buffer
	write(t, &b, elf.Chdr64{Type: uint32(elf.COMPRESS_ZLIB), Size: announced, Addralign: 1})
	w := zlib.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// HostileELFs returns small ELF files, by what is wrong with them, that once broke
// a reader or would if it were careless.
func HostileELFs(t testing.TB) map[string][]byte {
	t.Helper()
	const compressed, huge = elf.SHF_COMPRESSED, 1 << 40
	bomb := Compressed(t, make([]byte, 1<<20), huge)
	symbols := make([]byte, 24*3)
	return map[string][]byte{
		"compressed .gnu_debugdata": ELF(t, Section{
			Name: ".gnu_debugdata", Type: elf.SHT_PROGBITS, Flags: compressed, Data: Compressed(t, make([]byte, 1<<14), 0),
		}),
		"compressed .gnu_debugdata without a stream": ELF(t, Section{
			Name: ".gnu_debugdata", Type: elf.SHT_PROGBITS, Flags: compressed, Data: make([]byte, 24),
		}),
		"bomb in .gnu_debugdata": ELF(t, Section{Name: ".gnu_debugdata", Type: elf.SHT_PROGBITS, Flags: compressed, Data: bomb}),
		"compressed .symtab": ELF(t,
			Section{Name: ".symtab", Type: elf.SHT_SYMTAB, Flags: compressed, Link: 2, Data: Compressed(t, symbols, 0)},
			Section{Name: ".strtab", Type: elf.SHT_STRTAB, Data: []byte{0}}),
		"compressed .strtab": ELF(t,
			Section{Name: ".symtab", Type: elf.SHT_SYMTAB, Link: 2, Data: symbols},
			Section{Name: ".strtab", Type: elf.SHT_STRTAB, Flags: compressed, Data: bomb}),
		"strings of .symtab beyond all sections": ELF(t,
			Section{Name: ".symtab", Type: elf.SHT_SYMTAB, Link: 1 << 31, Data: symbols}),
		"huge .symtab": ELF(t,
			Section{Name: ".symtab", Type: elf.SHT_SYMTAB, Link: 2, Data: symbols, Size: huge},
			Section{Name: ".strtab", Type: elf.SHT_STRTAB, Size: huge}),
		"compressed .eh_frame":            ELF(t, Section{Name: ".eh_frame", Type: elf.SHT_PROGBITS, Flags: compressed, Data: bomb}),
		"compressed and loaded .eh_frame": ELF(t, Section{Name: ".eh_frame", Type: elf.SHT_PROGBITS, Flags: compressed | elf.SHF_ALLOC, Data: bomb}),
		"huge .eh_frame":                  ELF(t, Section{Name: ".eh_frame", Type: elf.SHT_PROGBITS, Size: huge}),
		"compressed build ID":             ELF(t, Section{Name: ".note.gnu.build-id", Type: elf.SHT_NOTE, Flags: compressed, Data: bomb}),
	}
}

func write(t testing.TB, b *bytes.Buffer, v any) {
	t.Helper()
	if err := binary.Write(b, binary.LittleEndian, v); err != nil {
		t.Fatal(err)
	}
}
