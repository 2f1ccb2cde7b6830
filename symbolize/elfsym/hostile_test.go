package elfsym_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"runtime"
	"strings"
	"testing"

	"ustack/symbolize/contain"
	"ustack/symbolize/elfsym"
	"ustack/testdata/nodetest"
)

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestHostileFilesAreReadInBounds(t *testing.T) {
	const much = 32 << 20
	for name, image := range nodetest.HostileELFs(t) {
		t.Run(name, func(t *testing.T) {
			if bytes := allocated(func() { exercise(image) }); bytes > much {
				t.Errorf("%d bytes allocated for a file of %d, want %d at most", bytes, len(image), much)
			}
			f, err := elfsym.Open(bytes.NewReader(image))
			if _, isFault := err.(*contain.Fault); isFault || err == nil && f == nil {
				t.Errorf("Open = %v, %v, want a file or a reason", f, err)
			}
		})
	}
}

// TestDamagedTablesAreReported checks that damaged tables are reported, and that
// the rest of the file is read.
func TestDamagedTablesAreReported(t *testing.T) {
	for name, image := range nodetest.HostileELFs(t) {
		section, _, _ := strings.Cut(name[strings.LastIndexByte(name, ' ')+1:], " ")
		if section != ".gnu_debugdata" && section != ".symtab" {
			continue
		}
		f, err := elfsym.Open(bytes.NewReader(image))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := f.Partial(); err == nil || !strings.Contains(err.Error(), section) {
			t.Errorf("%s: Partial = %v, want a reason that names %s", name, err, section)
		}
	}
}

// TestHeadersTakeLittleMemory declares section names, and sections, that are far
// too large, in a file that has all those bytes.
func TestHeadersTakeLittleMemory(t *testing.T) {
	const huge, much = 1 << 40, 1 << 20
	image := nodetest.ELF(t)
	header := func(set func(h *elf.Header64, names *elf.Section64)) io.ReaderAt {
		var h elf.Header64
		var names elf.Section64
		data := bytes.Clone(image)
		decode(t, data, &h)
		at := int(h.Shoff) + 64*int(h.Shstrndx)
		decode(t, data[at:], &names)
		set(&h, &names)
		encode(t, data[at:], &names)
		encode(t, data, &h)
		return sparse{data}
	}
	for name, r := range map[string]io.ReaderAt{
		"names of a terabyte":  header(func(_ *elf.Header64, names *elf.Section64) { names.Size = huge }),
		"65,279 sections":      header(func(h *elf.Header64, _ *elf.Section64) { h.Shnum = 0xfeff }),
		"2^32 sections":        header(func(h *elf.Header64, _ *elf.Section64) { h.Shnum = 0 }),
		"headers of 65,535 B":  header(func(h *elf.Header64, _ *elf.Section64) { h.Shentsize = 0xffff }),
		"65,535 segments":      header(func(h *elf.Header64, _ *elf.Section64) { h.Phnum = 0xffff }),
		"segments of 65,535 B": header(func(h *elf.Header64, _ *elf.Section64) { h.Phentsize = 0xffff }),
		"compressed names": header(func(_ *elf.Header64, names *elf.Section64) {
			names.Flags = uint64(elf.SHF_COMPRESSED)
		}),
	} {
		var err error
		bytes := allocated(func() { _, err = elfsym.Open(r) })
		if err == nil || bytes > much {
			t.Errorf("%s: error = %v after %d bytes, want a reason after %d at most", name, err, bytes, much)
		}
	}
}

// TestMillionsOfSymbols reads a table with more functions than the limit: 100 MB
// that cost a target nothing, in a sparse file.
func TestMillionsOfSymbols(t *testing.T) {
	const indexed, more = 1 << 21, 1000
	function := elf.Sym64{Name: 1, Info: byte(elf.STT_FUNC), Shndx: 1, Value: 0x100, Size: 1}
	image := nodetest.ELF(t,
		nodetest.Section{Name: ".text", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Data: make([]byte, 1<<10)},
		nodetest.Section{Name: ".strtab", Type: elf.SHT_STRTAB, Data: []byte("\x00name\x00")},
		nodetest.Section{Name: ".symtab", Type: elf.SHT_SYMTAB, Link: 2, Size: 24 * (indexed + more)})
	var h elf.Header64
	decode(t, image, &h)
	const table = 3
	var symtab elf.Section64
	decode(t, image[h.Shoff+table*64:], &symtab)
	symtab.Off = far
	encode(t, image[h.Shoff+table*64:], &symtab)
	r := repeated{image: image, record: make([]byte, 24)}
	encode(t, r.record, &function)
	const much = 600 << 20 // in total; the index keeps 24 bytes per function
	var f *elfsym.File
	var err error
	if bytes := allocated(func() { f, err = elfsym.Open(r) }); err != nil || bytes > much {
		t.Fatalf("error = %v after %d bytes, want none and %d at most", err, bytes, much)
	}
	if err := f.Partial(); err == nil || !strings.Contains(err.Error(), "1000 functions are beyond") {
		t.Errorf("Partial = %v, want how many functions have no names", err)
	}
	if s, ok := f.Lookup(0x100); !ok || s.Name != "name" {
		t.Errorf("Lookup = %v, %v, want the function", s, ok)
	}
}

// sparse is data followed by endless zeros.
type sparse struct{ data []byte }

func (s sparse) ReadAt(p []byte, offset int64) (int, error) {
	clear(p)
	if offset < int64(len(s.data)) {
		copy(p, s.data[offset:])
	}
	return len(p), nil
}

// far is the offset of the first record in a repeated.
const far = 1 << 40

// repeated is an image, followed from far on by endless copies of one record.
type repeated struct{ image, record []byte }

func (r repeated) ReadAt(p []byte, offset int64) (int, error) {
	if offset < far {
		return bytes.NewReader(r.image).ReadAt(p, offset)
	}
	for done := 0; done < len(p); {
		done += copy(p[done:], r.record[(offset-far+int64(done))%int64(len(r.record)):])
	}
	return len(p), nil
}

func decode(t *testing.T, data []byte, to any) {
	t.Helper()
	if _, err := binary.Decode(data, binary.LittleEndian, to); err != nil {
		t.Fatal(err)
	}
}

func encode(t *testing.T, data []byte, v any) {
	t.Helper()
	if _, err := binary.Encode(data, binary.LittleEndian, v); err != nil {
		t.Fatal(err)
	}
}
