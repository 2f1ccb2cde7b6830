package unwind

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"ustack/testdata/nodetest"
)

// libc returns the C library's file, whose functions use no frame pointers.
func libc(t testing.TB) *os.File {
	t.Helper()
	found, _ := filepath.Glob("/lib/x86_64-linux-gnu/libc.so.6")
	if len(found) == 0 {
		nodetest.MustRun(t, "no C library where Debian has it")
	}
	f, err := os.Open(found[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// table returns a table of one function, at tableAt, that pushes rbp and rbx. The
// initial instructions say: the frame is at rsp+8, and the return address below
// it.
func table(augmentation string, instructions ...byte) []byte {
	entry := func(body []byte) []byte {
		for len(body)%8 != 4 {
			body = append(body, 0)
		}
		return append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	common := append([]byte{0, 0, 0, 0, 1}, augmentation...)
	common = append(common, 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1)
	data := entry(common)
	function := binary.LittleEndian.AppendUint32(nil, uint32(len(data)+4))
	function = binary.LittleEndian.AppendUint32(function, uint32(codeAddress-tableAddress-uint64(len(data))-8))
	function = binary.LittleEndian.AppendUint32(function, codeSize)
	function = append(append(function, 0), instructions...)
	return append(data, entry(function)...)
}

// sectionOf returns a table as it is in a file.
func sectionOf(table []byte) section {
	return section{bytes.NewReader(table), len(table), tableAddress, x86Arch}
}

const (
	tableAddress = 0x10000
	codeAddress  = 0x11000
	codeSize     = 0x100
	stackAddress = 0x20000
)

// pushes are the instructions for: push rbp at 0, push rbx at 1, both known
// after.
var pushes = []byte{0x41, 0x0e, 16, 0x86, 2, 0x41, 0x0e, 24, 0x83, 3}

// words is a stack whose word at each address is the address plus one.
func words(address uint64) (uint64, error) {
	if address < stackAddress || address >= stackAddress+0x1000 {
		return 0, errors.New("not mapped")
	}
	return address + 1, nil
}

func at(pc, sp uint64) Cursor {
	c := Cursor{PC: pc, Arch: x86Arch, Known: x86Arch.All(), Leaf: true}
	for i := range c.Regs {
		c.Regs[i] = uint64(i)
	}
	c.Regs[rsp] = sp
	return c
}

func TestCallerIsFoundByTable(t *testing.T) {
	u, err := parse(x86Arch, table("zR", pushes...), tableAddress)
	if err != nil {
		t.Fatal(err)
	}
	const rbx = 3
	for _, tt := range []struct {
		name         string
		pc, frame    uint64 // frame: distance from the stack pointer to the frame
		fp, rbx      uint64
		returnedFrom bool
	}{
		{"at the entry", codeAddress, 8, rbp, rbx, false},
		{"after one push", codeAddress + 1, 16, stackAddress + 1, rbx, false},
		{"after two", codeAddress + 2, 24, stackAddress + 8 + 1, stackAddress + 1, false},
		{"at the end", codeAddress + codeSize, 24, stackAddress + 8 + 1, stackAddress + 1, true},
	} {
		c := at(tt.pc, stackAddress)
		c.Leaf = !tt.returnedFrom
		next, err := u.Caller(c, tt.pc, words)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if want := stackAddress + tt.frame; next.SP() != want || next.PC != want-8+1 {
			t.Errorf("%s: sp = %#x, pc = %#x, want %#x, %#x", tt.name, next.SP(), next.PC, want, want-8+1)
		}
		if next.FP() != tt.fp || next.Regs[rbx] != tt.rbx || next.Leaf {
			t.Errorf("%s: rbp = %#x, rbx = %#x, want %#x, %#x", tt.name, next.FP(), next.Regs[rbx], tt.fp, tt.rbx)
		}
		if _, known := next.Get(0); known {
			t.Errorf("%s: rax is known, which a call does not keep", tt.name)
		}
	}
}

func TestRegisterMayBeWhereAnExpressionSays(t *testing.T) {
	u, err := parse(x86Arch, table("zR", 0x10, rbp, 2, 0x77, 24), tableAddress)
	if err != nil {
		t.Fatal(err)
	}
	next, err := u.Caller(at(codeAddress, stackAddress), codeAddress, words)
	if want := uint64(stackAddress + 24 + 1); err != nil || next.FP() != want {
		t.Errorf("rbp = %#x, %v, want %#x", next.FP(), err, want)
	}
}

func TestTableThatDoesNotHelpIsSaid(t *testing.T) {
	for _, tt := range []struct {
		name         string
		instructions []byte
		pc           uint64
		want         error
	}{
		{"elsewhere", pushes, codeAddress + codeSize, ErrNoEntry},
		{"outermost", []byte{0x07, 16}, codeAddress, ErrOutermost},
		{"an expression", []byte{0x0f, 1, 0}, codeAddress, errExpression},
	} {
		u, err := parse(x86Arch, table("zR", tt.instructions...), tableAddress)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.Caller(at(tt.pc, stackAddress), tt.pc, words); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	for _, damaged := range [][]byte{{1}, {5, 0, 0, 0, 9, 9, 9, 9}, table("zR", 0x0b), table("zQ")} {
		u, err := parse(x86Arch, damaged, tableAddress)
		if err == nil {
			_, err = u.Caller(at(codeAddress, stackAddress), codeAddress, words)
		}
		if err == nil {
			t.Errorf("%x: no error", damaged)
		}
	}
}

func TestSignalsFrameLeadsToWhatItInterrupted(t *testing.T) {
	u, err := parse(x86Arch, table("zRS"), tableAddress)
	if err != nil {
		t.Fatal(err)
	}
	next, err := u.Caller(at(codeAddress, stackAddress), codeAddress, words)
	if err != nil {
		t.Fatal(err)
	}
	const first = stackAddress + 40
	if next.PC != first+8*16+1 || next.SP() != first+8*15+1 || next.FP() != first+8*10+1 || !next.Leaf {
		t.Errorf("interrupted at %#x with sp %#x, rbp %#x (leaf %v)", next.PC, next.SP(), next.FP(), next.Leaf)
	}
}

// TestLibrarysTableIsWhole looks up every function of the C library.
func TestLibrarysTableIsWhole(t *testing.T) {
	file := libc(t)
	u, err := New(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(file)
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	found, all := 0, 0
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Value == 0 {
			continue
		}
		all++
		next, err := u.Caller(at(s.Value, stackAddress), s.Value, words)
		if err == nil && next.SP() == stackAddress+8 && next.PC == stackAddress+1 {
			found++
		}
	}
	if all < 1000 || found < all*99/100 {
		t.Errorf("callers found at the entry of %d of %d functions, want 99 %% of 1000 or more", found, all)
	}
}

func TestExpressionsAreEvaluated(t *testing.T) {
	for _, tt := range []struct {
		name       string
		operations []byte
		want       uint64
		err        error
	}{
		{"OpenSSL's: what the stack has at 152, and 8", []byte{0x77, 0x98, 1, opDeref, opPlusConst, 8}, stackAddress + 152 + 1 + 8, nil},
		{"a stub's first", []byte{0x77, 8, 0x80, 0, 0x3f, opAnd, 0x3b, opGE, 0x33, opShl, opPlus}, stackAddress + 8, nil},
		{"below a register", []byte{0x77, 0x78}, stackAddress - 8, nil},
		{"an element", []byte{0x77, 8, 0x33, 0x38, opMultiply, opPlus}, stackAddress + 8 + 3*8, nil},
		{"difference", []byte{0x35, 0x33, opMinus}, 2, nil},
		{"nothing", nil, 0, errExpression},
		{"no operand", []byte{opPlus}, 0, errExpression},
		{"nothing to read", []byte{opDeref}, 0, errExpression},
		{"cut", []byte{0x77, 0x80}, 0, errExpression},
		{"unknown", []byte{0x30, 0x30, 0xff}, 0, errExpression},
		{"no such register", []byte{0x8f, 0}, 0, errNoRule},
	} {
		got, err := evaluate(tt.operations, at(codeAddress, stackAddress), words)
		if !errors.Is(err, tt.err) || got != tt.want {
			t.Errorf("%s: %#x, %v, want %#x, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
}

func FuzzUnwind(f *testing.F) {
	f.Add(table("zR", pushes...), uint64(codeAddress))
	f.Add(table("zRS"), uint64(codeAddress+1))
	f.Add(table("zR", 0x0f, 4, 0x77, 8, 6, 0x30), uint64(codeAddress))
	f.Add(table("zPLR", 0x0a, 0x0b, 0x0b), uint64(codeAddress+2))
	f.Fuzz(func(t *testing.T, data []byte, pc uint64) {
		u, err := parse(x86Arch, data, tableAddress)
		if err != nil {
			return
		}
		u.Caller(at(pc, stackAddress), pc, words)
	})
}

// TestSignedNumbersAreReadAsTheyAreWritten encodes numbers of all lengths.
func TestSignedNumbersAreReadAsTheyAreWritten(t *testing.T) {
	encode := func(n int64) (b []byte) {
		for {
			c := byte(n & 0x7f)
			n >>= 7
			if n == 0 && c&0x40 == 0 || n == -1 && c&0x40 != 0 {
				return append(b, c)
			}
			b = append(b, c|0x80)
		}
	}
	for shift := range 64 {
		for _, want := range []int64{1<<shift - 1, 1 << shift, -1 << shift, -1<<shift - 1} {
			b := encode(want)
			if got, rest, ok := signedLEB(append(b, 0x55)); got != want || len(rest) != 1 || !ok {
				t.Errorf("%d as % x = %d, %d bytes left, %t", want, b, got, len(rest), ok)
			}
			if n, _, ok := signedLEB(b[:len(b)-1]); ok {
				t.Errorf("%d without its last byte = %d, want an error", want, n)
			}
		}
	}
	if n, _, ok := signedLEB(bytes.Repeat([]byte{0x80}, 20)); ok {
		t.Errorf("a number without end = %d, want an error", n)
	}
}
