package x86

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ustack/testdata/nodetest"
)

func TestTablesAreWhole(t *testing.T) {
	const forms = ".xpre23vmMWLZgGbwnjzio"
	for name, table := range map[string]string{"first": first, "second": second} {
		if len(table) != 256 {
			t.Errorf("%s has %d opcodes, want 256", name, len(table))
		}
		for opcode, form := range table {
			if !strings.ContainsRune(forms, form) {
				t.Errorf("%s[%#x] = %q, want one of %q", name, opcode, form, forms)
			}
		}
	}
}

func TestPrefixes(t *testing.T) {
	want := map[byte]byte{0x26: formPrefix, 0x2e: formPrefix, 0x36: formPrefix, 0x3e: formPrefix}
	for _, prefix := range []byte{0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3} {
		want[prefix] = formPrefix
	}
	for rex := range byte(16) {
		want[0x40|rex] = formREX
	}
	for opcode := range 256 {
		form := first[opcode]
		if prefix := form == formPrefix || form == formREX; prefix != (want[byte(opcode)] != 0) || prefix && form != want[byte(opcode)] {
			t.Errorf("form of %#x = %q, want %q", opcode, form, want[byte(opcode)])
		}
	}
}

// operandsOf have what names registers and memory in each way, and what follows.
var operandsOf = func() (all [][2]byte) {
	for modrm := range 256 {
		all = append(all, [2]byte{byte(modrm), 0x24})
		if modrm < 0xc0 && modrm&7 == 4 {
			all = append(all, [2]byte{byte(modrm), 0x25}, [2]byte{byte(modrm), 0xc5})
		}
	}
	return all
}()

// eachInstruction calls visit with each opcode of one byte and after 0f, after each of the
// prefixes, with all operands.
func eachInstruction(prefixes [][]byte, visit func(code *[window]byte)) {
	for _, prefix := range prefixes {
		for _, escape := range [][]byte{nil, {0x0f}} {
			for opcode := range 256 {
				for _, operands := range operandsOf {
					code := [window]byte{}
					n := copy(code[:], prefix)
					n += copy(code[n:], escape)
					code[n] = byte(opcode)
					n += 1 + copy(code[n+1:], operands[:])
					for i := range code[n:] {
						code[n+i] = byte(0xf1 + i)
					}
					visit(&code)
				}
			}
		}
	}
}

// TestOnlySpecialOpcodesAreOfAKind classifies those that the table leaves out.
func TestOnlySpecialOpcodesAreOfAKind(t *testing.T) {
	kinds := map[byte]bool{}
	eachInstruction([][]byte{nil, {0x48}, {0x4d}, {0x66}}, func(code *[window]byte) {
		d := decoder{code: code}
		if form := d.head(); form == formInvalid || d.table != 0 || d.vector || !d.operands(form) {
			return
		}
		i := Instruction{Length: uint8(d.at), Reg: None}
		want := i
		if d.classify(&i); i != want {
			kinds[d.opcode] = true
		}
		if i != want && !special[d.opcode] && d.opcode >= 0x40 { // below, classify takes only special ones
			t.Errorf("% x = %+v, want %#x to be special", code[:maxLength], i, d.opcode)
		}
	})
	for opcode := range 256 {
		compare := opcode >= 0x38 && opcode < 0x40
		if special[opcode] && !compare && !kinds[byte(opcode)] {
			t.Errorf("%#x is special, but always Other", opcode)
		}
	}
}

// unlike reports whether the length of an instruction is not objdump's, on purpose.
func unlike(code []byte, text string) bool {
	short := false
	for ; code[0] == 0x66 || code[0] == 0xf2 || code[0] == 0xf3; code = code[1:] {
		short = short || code[0] == 0x66
	}
	words := strings.Fields(text)
	switch {
	case strings.HasPrefix(words[len(words)-1], "rex"): // separate there, before a prefix
		return true
	case code[0] == 0x9b: // joined with what follows
		return true
	case short && (code[0] == 0xe8 || code[0] == 0xe9 || code[0] == 0x0f && code[1]&0xf0 == 0x80): // two bytes, as AMD has it
		return true
	case code[0] == 0x0f && (code[1] == 0xa6 || code[1] == 0xa7): // of VIA only
		return true
	}
	return false
}

// TestTablesGiveObjdumpsLengths compares the length of each opcode of each table, in several forms.
func TestTablesGiveObjdumpsLengths(t *testing.T) {
	if _, err := exec.LookPath("objdump"); err != nil {
		nodetest.MustRun(t, "objdump is missing")
	}
	const size = 32 // of which the rest is nops
	var all []byte
	for _, head := range []string{
		"", "66", "48", "0f", "66 0f", "f2 0f", "f3 0f", "0f 38", "66 0f 38", "0f 3a", "66 0f 3a", "c5 f8", "c5 fd", "c4 e1 78", "c4 e2 79", "c4 e3 7d",
		"62 f1 7c 48", "62 f2 7d 48", "62 f3 7d 48", "8f e8 78", "8f e9 78", "8f ea 78",
	} {
		for opcode := range 256 {
			for _, operands := range []string{"00", "04 25", "45", "84 05", "c1", "d0", "f1"} {
				code := append(bytesOf(t, head), byte(opcode))
				code = append(append(code, bytesOf(t, operands)...), 1, 2, 3, 4, 5, 6, 7, 8)
				all = append(append(all, code...), bytes.Repeat([]byte{0x90}, size-len(code))...)
			}
		}
	}
	compared := 0
	for at, want := range objdumpLengths(t, all) {
		if at%size != 0 || unlike(all[at:], want.text) {
			continue
		}
		compared++
		if got := Decode(all[at:]); got.Kind == Invalid || int(got.Length) != want.length {
			t.Errorf("% x = %+v, want %d bytes: %s", all[at:at+maxLength], got, want.length, want.text)
		}
	}
	if compared < 10000 {
		t.Errorf("%d instructions compared, want 10000 or more", compared)
	}
}

type line struct {
	length int
	text   string
}

// objdumpLengths returns what objdump says of code, by where, without what is invalid.
func objdumpLengths(t *testing.T, code []byte) map[int]line {
	t.Helper()
	path := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(path, code, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "objdump", "-D", "-w", fmt.Sprint("--insn-width=", maxLength+1), "-b", "binary", "-m", "i386:x86-64", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[int]line{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) < 3 || strings.Contains(fields[2], "(bad)") {
			continue
		}
		at, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(fields[0]), ":"), 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		all[int(at)] = line{len(strings.Fields(fields[1])), fields[2]}
	}
	return all
}
