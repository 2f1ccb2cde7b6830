package disasm

import (
	"encoding/binary"
	"io"
	"testing"

	"ustack/symbolize/elfsym"
	"ustack/testdata/nodetest"
)

// Functions of V8.
const (
	codeKindName = "_ZN2v88internal16CodeKindToStringENS0_8CodeKindE" // has a table
	scopeDecoder = "_ZNK2v88internal9ScopeInfo22ContextLocalInfosIndexEv"
)

func TestAccessesAreThoseOfTheCode(t *testing.T) {
	eachNode(t, func(t *testing.T, version string, f *elfsym.File) {
		want := measured[version]
		s, ok := FindFunctions(f).byPrefix[TableAddress]
		if has := want.inGroup != 0 || want.inIsolate != 0; ok != has {
			t.Fatalf("accessor of the dispatch table: %v, want %v", ok, has)
		}
		if !ok {
			return
		}
		for _, indirect := range []bool{false, true} {
			got, ok := Accesses(f, s.Name, indirect)
			if !ok || want.inGroup != 0 && !got[want.inGroup] {
				t.Errorf("%s accesses %v, %v, want %#x", s.Name, got, ok, want.inGroup)
			}
			if want.inIsolate != 0 && got[want.inIsolate] == indirect { // relative to its argument
				t.Errorf("%s accesses %v, indirect %v, want %#x only if not indirect", s.Name, got, indirect, want.inIsolate)
			}
		}
	})
}

func TestConstantsAreThoseOfTheCode(t *testing.T) {
	eachNode(t, func(t *testing.T, version string, f *elfsym.File) {
		s, ok := FindFunctions(f).byPrefix[addCallback]
		if !ok {
			t.Fatalf("no %s", addCallback)
		}
		heap := int64(measured[version].heap)
		if got, ok := Constants(f, s.Name); !ok || !got[heap] || got[heap+8] {
			t.Errorf("constants of %s = %v, %v, want %#x", s.Name, got, ok, heap)
		}
	})
}

func TestTableHasTheNamesOfKinds(t *testing.T) {
	eachNode(t, func(t *testing.T, _ string, f *elfsym.File) {
		table, ok := Table(f, codeKindName)
		if !ok {
			t.Fatalf("%s has no table", codeKindName)
		}
		var word [8]byte
		if _, err := f.ReadAt(word[:], table); err != nil {
			t.Fatal(err)
		}
		const want = "BYTECODE_HANDLER\x00"
		var name [len(want)]byte
		if _, err := f.ReadAt(name[:], binary.LittleEndian.Uint64(word[:])); err != nil || string(name[:]) != want {
			t.Errorf("name of the first kind = %q, %v, want %q", name, err, want)
		}
	})
}

// A cutFile cannot be read between two offsets.
type cutFile struct {
	io.ReaderAt
	from, to int64
}

func (c *cutFile) ReadAt(b []byte, at int64) (int, error) {
	if at >= c.to || at+int64(len(b)) <= c.from {
		return c.ReaderAt.ReadAt(b, at)
	}
	n, _ := c.ReaderAt.ReadAt(b[:max(0, c.from-at)], at)
	return n, io.ErrUnexpectedEOF
}

// TestCutFunctionHasLess decodes functions of which only the start can be read.
func TestCutFunctionHasLess(t *testing.T) {
	cut := &cutFile{ReaderAt: openFile(t, nodetest.Node(t, "26.10.0"))}
	f, err := elfsym.Open(cut)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{codeKindName, scopeDecoder} {
		s, ok := f.Symbol(name)
		offset, inFile := f.Offset(s.Address)
		if !ok || !inFile {
			t.Fatalf("no %s", name)
		}
		all, _ := Constants(f, name)
		accesses, _ := Accesses(f, name, false)
		for length := range int64(s.Size) {
			cut.from, cut.to = int64(offset)+length, int64(offset+s.Size)
			if got, ok := Constants(f, name); !ok || len(got) > len(all) || length == 0 && len(got) > 0 {
				t.Errorf("constants of %d bytes of %s = %v, %v, want some of %v", length, name, got, ok, all)
			}
			if got, ok := Accesses(f, name, false); !ok || len(got) > len(accesses) || length == 0 && len(got) > 0 {
				t.Errorf("accesses of %d bytes of %s = %v, %v, want some of %v", length, name, got, ok, accesses)
			}
			if at, ok := Table(f, name); length == 0 && ok {
				t.Errorf("table of no bytes of %s = %#x", name, at)
			}
		}
		cut.from, cut.to = 0, 0
	}
}
