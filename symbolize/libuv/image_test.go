package libuv

import (
	"bytes"
	"debug/elf"
	enc "encoding/binary"
	"errors"
	"os"
	"testing"

	"ustack/testdata/nodetest"
)

func addon(t *testing.T) string {
	t.Helper()
	return nodetest.Addon(t, nodetest.Node(t, nodetest.Versions[2]), "rawuv.cc", nodetest.NoFramePointers)
}

func TestFunctionsSizesAreThoseOfTheirSymbols(t *testing.T) {
	im, _ := openFile(t, addon(t))
	symbols, err := im.file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	functions := 0
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Size == 0 || s.Section == elf.SHN_UNDEF {
			continue
		}
		functions++
		if got := im.size(s.Value); got != s.Size {
			t.Errorf("%s: size = %d, want %d", s.Name, got, s.Size)
		}
		if got := len(im.code(s.Value)); uint64(got) != s.Size {
			t.Errorf("%s: bytes of code = %d, want %d", s.Name, got, s.Size)
		}
		if im.size(s.Value+1) != 0 || im.code(s.Value+1) != nil {
			t.Errorf("%s: a function starts at its second byte, want none", s.Name)
		}
	}
	if functions < 5 {
		t.Errorf("functions = %d, want some", functions)
	}
	for _, address := range []uint64{1 << 40, 1<<64 - 1} {
		if im.size(address) != 0 || im.code(address) != nil || im.read(make([]byte, 8), address) {
			t.Errorf("a function or data at %#x, want none", address)
		}
		if _, ok := im.offset(address); ok {
			t.Errorf("a place in the file for %#x, want none", address)
		}
	}
}

// TestDamagedTablesHaveNoFunctions: whatever the tables hold, no place in the file is
// mistaken for a function's start.
func TestDamagedTablesHaveNoFunctions(t *testing.T) {
	whole, err := os.ReadFile(addon(t))
	if err != nil {
		t.Fatal(err)
	}
	im, exported := openFile(t, addon(t))
	address, ok := exported("_ZN5rawuv4Work10BeginSleepEv")
	if !ok || !im.starts(address) {
		t.Fatalf("function at %#x, %v, want one", address, ok)
	}
	at, _ := im.offset(im.base)
	for name, damage := range map[string]func([]byte){
		"other format": func(b []byte) { b[at+3] = 0xff },
		"no rows":      func(b []byte) { enc.LittleEndian.PutUint32(b[at+8:], 0) },
		"too many":     func(b []byte) { enc.LittleEndian.PutUint32(b[at+8:], 1<<32-1) },
		"descriptions elsewhere": func(b []byte) {
			for i := at + 12; i < at+12+uint64(len(im.rows)); i += rowSize {
				enc.LittleEndian.PutUint32(b[i+4:], 1<<31-1)
			}
		},
		"descriptions of others": func(b []byte) {
			for i := at + 12; i < at+12+uint64(len(im.rows)); i += rowSize {
				enc.LittleEndian.PutUint32(b[i+4:], enc.LittleEndian.Uint32(b[i+4:])+8)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := append([]byte{}, whole...)
			damage(text)
			im, err := Open(bytes.NewReader(text), nil)
			if errors.Is(err, errNoFunctions) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if im.starts(address) {
				t.Errorf("a function starts at %#x, want none", address)
			}
		})
	}
}

func TestOnlyWhatCannotChangeIsAConstant(t *testing.T) {
	im, _ := openFile(t, addon(t))
	for name, want := range map[string]bool{".rodata": true, ".text": true, ".data.rel.ro": true, ".data": false, ".bss": false} {
		s := im.file.Section(name)
		if s == nil || s.Size < 8 {
			continue
		}
		if _, got := im.constant(s.Addr); got != want {
			t.Errorf("constant in %s = %v, want %v", name, got, want)
		}
	}
}
