package x86

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"ustack/testdata/nodetest"
)

// compared bounds how much of a section is compared with what objdump says.
const compared = 4 << 20

// TestLengthsAreObjdumps compares where each instruction of libraries and of node begins.
func TestLengthsAreObjdumps(t *testing.T) {
	if _, err := exec.LookPath("objdump"); err != nil {
		nodetest.MustRun(t, "objdump is missing")
	}
	files := []string{nodetest.Node(t, nodetest.Versions[len(nodetest.Versions)-1])}
	for _, name := range []string{"libc.so.6", "libstdc++.so.6"} { // without data between functions
		files = append(files, "/usr/lib/x86_64-linux-gnu/"+name)
	}
	for _, file := range files {
		f, err := elf.Open(file)
		if err != nil {
			t.Error(err)
			continue
		}
		text := f.Section(".text")
		code, err := text.Data()
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		compareWithObjdump(t, file, code, text.Addr)
	}
}

// compareWithObjdump compares the start of each instruction in the code of a file, which
// is loaded at address.
func compareWithObjdump(t *testing.T, file string, code []byte, address uint64) {
	t.Helper()
	limit := address + uint64(min(len(code), compared))
	cmd := exec.CommandContext(t.Context(), "objdump", "-d", "-w", "--no-show-raw-insn", "-j", ".text",
		fmt.Sprintf("--start-address=%#x", address), fmt.Sprintf("--stop-address=%#x", limit), file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	at, all, wrong := address, 0, 0
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		before, text, ok := strings.Cut(lines.Text(), ":\t")
		start, err := strconv.ParseUint(strings.TrimSpace(before), 16, 64)
		if !ok || err != nil || start+maxLength > limit { // the last one may be cut
			continue
		}
		if start != at && all > 0 {
			if wrong++; wrong < 20 {
				t.Logf("%s: instruction at %#x, want it at %#x (%s)", file, at, start, text)
			}
		}
		all++
		i := Decode(code[start-address:])
		if at = start + uint64(i.Length); i.Kind == Invalid && !strings.Contains(text, "(bad)") {
			if wrong++; wrong < 20 {
				t.Logf("%s: %#x: invalid, want %s", file, start, text)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if t.Logf("%s: %d of %d instructions differ", file, wrong, all); wrong > 0 || all < 1000 {
		t.Errorf("%s: %d of %d instructions are not where objdump has them", file, wrong, all)
	}
}

func TestKinds(t *testing.T) {
	for name, tt := range map[string]struct {
		code []byte
		want Instruction
	}{
		"push %rbp":               {[]byte{0x55}, Instruction{Push, 1, FP, 0}},
		"push %r13":               {[]byte{0x41, 0x55}, Instruction{Push, 2, 13, 0}},
		"push $8":                 {[]byte{0x6a, 8}, Instruction{Push, 2, None, 0}},
		"push 8(%rax)":            {[]byte{0xff, 0x70, 8}, Instruction{Push, 3, None, 0}},
		"push %ax":                {[]byte{0x66, 0x50}, Instruction{SetSP, 2, 0, 0}},
		"pop %rbp":                {[]byte{0x5d}, Instruction{Pop, 1, FP, 0}},
		"pop %rsp":                {[]byte{0x5c}, Instruction{SetSP, 1, SP, 0}},
		"pop (%rax)":              {[]byte{0x8f, 0x00}, Instruction{Pop, 2, None, 0}},
		"sub $24,%rsp":            {[]byte{0x48, 0x83, 0xec, 24}, Instruction{AddSP, 4, None, -24}},
		"add $4096,%rsp":          {[]byte{0x48, 0x81, 0xc4, 0, 0x10, 0, 0}, Instruction{AddSP, 7, None, 4096}},
		"add $24,%esp":            {[]byte{0x83, 0xc4, 24}, Instruction{SetSP, 3, None, 0}},
		"cmp $24,%rsp":            {[]byte{0x48, 0x83, 0xfc, 24}, Instruction{Other, 4, None, 0}},
		"and $-32,%rsp":           {[]byte{0x48, 0x83, 0xe4, 0xe0}, Instruction{SetSP, 4, None, 0}},
		"sub %rax,%rsp":           {[]byte{0x48, 0x29, 0xc4}, Instruction{SetSP, 3, None, 0}},
		"mov (%rax),%rsp":         {[]byte{0x48, 0x8b, 0x20}, Instruction{SetSP, 3, None, 0}},
		"lea -8(%rsp),%rsp":       {[]byte{0x48, 0x8d, 0x64, 0x24, 0xf8}, Instruction{AddSP, 5, None, -8}},
		"lea -40(%rbp),%rsp":      {[]byte{0x48, 0x8d, 0x65, 0xd8}, Instruction{FPToSP, 4, None, -40}},
		"lea (%rsp,%rax),%rsp":    {[]byte{0x48, 0x8d, 0x24, 0x04}, Instruction{SetSP, 4, None, 0}},
		"lea 16(%rsp),%rbp":       {[]byte{0x48, 0x8d, 0x6c, 0x24, 16}, Instruction{SPToFP, 5, FP, 16}},
		"lea 16(%rip),%rax":       {[]byte{0x48, 0x8d, 0x05, 16, 0, 0, 0}, Instruction{Address, 7, None, 16}},
		"lea -8(%r10),%rsp":       {[]byte{0x49, 0x8d, 0x62, 0xf8}, Instruction{RegToSP, 4, R10, -8}},
		"lea 8(%rsp),%r10":        {[]byte{0x4c, 0x8d, 0x54, 0x24, 8}, Instruction{SPToReg, 5, R10, 8}},
		"mov -8(%rbp),%r10":       {[]byte{0x4c, 0x8b, 0x55, 0xf8}, Instruction{LoadReg, 4, R10, -8}},
		"mov %rsp,%rbp":           {[]byte{0x48, 0x89, 0xe5}, Instruction{SPToFP, 3, None, 0}},
		"mov %rsp,%rbp, reversed": {[]byte{0x48, 0x8b, 0xec}, Instruction{SPToFP, 3, None, 0}},
		"mov %rbp,%rsp":           {[]byte{0x48, 0x89, 0xec}, Instruction{FPToSP, 3, None, 0}},
		"mov %rbp,8(%rsp)":        {[]byte{0x48, 0x89, 0x6c, 0x24, 8}, Instruction{SaveFP, 5, None, 8}},
		"mov 8(%rsp),%rbp":        {[]byte{0x48, 0x8b, 0x6c, 0x24, 8}, Instruction{RestoreFP, 5, None, 8}},
		"mov %r13,8(%rsp)":        {[]byte{0x4c, 0x89, 0x6c, 0x24, 8}, Instruction{Other, 5, None, 0}},
		"mov %ebp,%eax":           {[]byte{0x89, 0xe8}, Instruction{Other, 2, None, 0}},
		"xor %ebp,%ebp":           {[]byte{0x31, 0xed}, Instruction{Write, 2, FP, 0}},
		"mov $1,%ebp":             {[]byte{0xbd, 1, 0, 0, 0}, Instruction{Write, 5, FP, 0}},
		"movzbl (%rax),%ebp":      {[]byte{0x0f, 0xb6, 0x28}, Instruction{Write, 3, FP, 0}},
		"leave":                   {[]byte{0xc9}, Instruction{Leave, 1, None, 0}},
		"enter":                   {[]byte{0xc8, 16, 0, 0}, Instruction{SetSP, 4, None, 0}},
		"ret":                     {[]byte{0xc3}, Instruction{Return, 1, None, 0}},
		"repz ret":                {[]byte{0xf3, 0xc3}, Instruction{Return, 2, None, 0}},
		"call":                    {[]byte{0xe8, 1, 0, 0, 0}, Instruction{Call, 5, None, 1}},
		"call *%rax":              {[]byte{0xff, 0xd0}, Instruction{CallOther, 2, None, 0}},
		"jmp, near":               {[]byte{0xeb, 0xfe}, Instruction{Jump, 2, None, -2}},
		"jmp, far":                {[]byte{0xe9, 1, 0, 0, 0}, Instruction{Jump, 5, None, 1}},
		"notrack jmp *%rax":       {[]byte{0x3e, 0xff, 0xe0}, Instruction{JumpOther, 3, None, 0}},
		"jne, near":               {[]byte{0x75, 2}, Instruction{Branch, 2, None, 2}},
		"jne, far":                {[]byte{0x0f, 0x85, 2, 0, 0, 0}, Instruction{Branch, 6, None, 2}},
		"ud2":                     {[]byte{0x0f, 0x0b}, Instruction{Stop, 2, None, 0}},
		"int3":                    {[]byte{0xcc}, Instruction{Trap, 1, None, 0}},
		"endbr64":                 {[]byte{0xf3, 0x0f, 0x1e, 0xfa}, Instruction{Nop, 4, None, 0}},
		"cs nopw":                 {[]byte{0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}, Instruction{Nop, 10, None, 0}},
		"vaddps, with VEX":        {[]byte{0xc5, 0xfc, 0x58, 0xec}, Instruction{Other, 4, None, 0}},
		"vaddps, with EVEX":       {[]byte{0x62, 0xf1, 0x7c, 0x48, 0x58, 0x6c, 0x24, 1}, Instruction{Other, 8, None, 0}},
		"nothing":                 {nil, Instruction{Kind: Invalid}},
		"half a call":             {[]byte{0xe8, 1}, Instruction{Kind: Invalid, Length: 2}},
		"prefixes only":           {bytes.Repeat([]byte{0x66}, 40), Instruction{Kind: Invalid, Length: 1}},
		"an opcode of 32 bits":    {append([]byte{0x06}, make([]byte, 40)...), Instruction{Kind: Invalid, Length: 1}},
	} {
		got := Decode(tt.code)
		if got.Kind == SetSP || got.Kind == SPToFP {
			got.Reg = tt.want.Reg // has no meaning
		}
		if got != tt.want {
			t.Errorf("%s = %+v, want %+v", name, got, tt.want)
		}
	}
}

// bytesOf returns the bytes that text has in hexadecimal.
func bytesOf(t *testing.T, text string) []byte {
	t.Helper()
	code, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// TestLengths decodes instructions of each encoding, alone, before other bytes and cut
// after each of their bytes.
func TestLengths(t *testing.T) {
	for name, all := range encodings {
		t.Run(name, func(t *testing.T) {
			for _, text := range all {
				code := bytesOf(t, text)
				alone := Decode(code)
				if alone.Kind == Invalid || int(alone.Length) != len(code) {
					t.Errorf("%s = %+v, want an instruction of %d bytes", text, alone, len(code))
				}
				for _, filler := range []byte{0, 0x66, 0xff} {
					if got := Decode(append(code[:len(code):len(code)], bytes.Repeat([]byte{filler}, window)...)); got != alone {
						t.Errorf("%s before bytes %#x = %+v, want %+v", text, filler, got, alone)
					}
				}
				for n := range code {
					if got := Decode(code[:n]); got.Kind != Invalid || int(got.Length) > n || got.Length == 0 && n > 0 {
						t.Errorf("the first %d bytes of %s = %+v, want none that is valid", n, text, got)
					}
				}
			}
		})
	}
}

// encodings are instructions, each whole, by what their length depends on.
var encodings = map[string][]string{
	"prefixes": {
		"66 90", "f3 90", "2e 90", "36 90", "3e 90", "26 90", "64 90", "65 90", "f0 90", "f2 90", "67 90",
		"f0 48 0f b1 0a", "2e 66 90", "66 2e 90", "66 66 2e 0f 1f 84 00 00 00 00 00", "f3 66 48 a5", "66 f3 48 a5",
		"66 66 66 66 66 66 66 66 66 66 66 66 66 66 90", "f2 f3 66 67 2e 36 3e 26 64 65 f0 00 00",
	},
	"REX": {
		"40 90", "48 01 d8", "4f 01 ff", "41 0f b6 04 24", "48 66 90", "66 48 90", "48 b8 01 02 03 04 05 06 07 08",
		"48 66 b8 01 02", "48 2e 05 01 02 03 04", "40 48 b8 01 02 03 04 05 06 07 08", "48 40 b8 01 02 03 04",
		"66 48 05 01 02 03 04", "48 f3 b8 01 02 03 04",
	},
	"the size of operands": {
		"05 01 02 03 04", "66 05 01 02", "68 01 02 03 04", "66 68 01 02", "69 c0 01 02 03 04", "66 69 c0 01 02",
		"81 c0 01 02 03 04", "66 81 c0 01 02", "66 48 81 c0 01 02 03 04", "c7 00 01 02 03 04", "66 c7 00 01 02",
		"a9 01 02 03 04", "66 a9 01 02", "66 04 01", "66 6a 01", "66 83 c0 01", "66 c6 00 01", "66 b0 01",
		"b8 01 02 03 04", "66 b8 01 02", "41 bf 01 02 03 04", "49 bf 01 02 03 04 05 06 07 08", "66 49 bf 01 02 03 04 05 06 07 08",
	},
	"the size of addresses": {
		"67 8b 00", "67 8b 04 25 01 02 03 04", "67 8b 05 01 02 03 04", "67 66 c7 80 01 02 03 04 05 06", "67 e3 01",
		"a0 01 02 03 04 05 06 07 08", "a1 01 02 03 04 05 06 07 08", "a2 01 02 03 04 05 06 07 08", "a3 01 02 03 04 05 06 07 08",
		"48 a1 01 02 03 04 05 06 07 08", "66 a1 01 02 03 04 05 06 07 08", "67 a0 01 02 03 04", "67 a1 01 02 03 04",
		"67 48 a3 01 02 03 04", "66 67 a3 01 02 03 04",
	},
	"registers or memory": {
		"8b c0", "8b 00", "8b 40 01", "8b 80 01 02 03 04", "8b 05 01 02 03 04", "41 8b 05 01 02 03 04", "8b 45 00", "8b 85 01 02 03 04",
		"8b 04 24", "8b 04 25 01 02 03 04", "8b 44 25 01", "8b 84 25 01 02 03 04", "41 8b 04 25 01 02 03 04", "42 8b 04 a5 01 02 03 04",
		"8b 04 05 01 02 03 04", "8b 44 24 01", "8b 84 24 01 02 03 04", "8b c4", "c7 04 25 01 02 03 04 05 06 07 08",
		"c7 84 05 01 02 03 04 05 06 07 08", "83 3d 01 02 03 04 05", "80 7c 24 01 02",
	},
	"constants": {
		"c2 01 02", "66 c2 01 02", "c3", "ca 01 02", "cb", "48 cb", "c8 01 02 03", "cd 80", "e4 01", "e7 01", "ec",
		"f6 c0 01", "f6 c8 01", "f6 d0", "f6 18", "f6 60 01", "f6 fb", "f7 c0 01 02 03 04", "f7 c8 01 02 03 04", "66 f7 c0 01 02",
		"48 f7 c0 01 02 03 04", "f7 d0", "f7 58 01", "66 f7 e0", "f7 b8 01 02 03 04", "f7 05 01 02 03 04 05 06 07 08",
		"c0 e0 01", "c1 e0 01", "d0 e0", "d3 e0", "fe c0", "ff c0", "6b c0 01", "70 01", "e0 01", "eb 01", "e8 01 02 03 04",
		"e9 01 02 03 04", "0f 80 01 02 03 04", "48 e8 01 02 03 04", "c7 f8 01 02 03 04", "c6 f8 01",
	},
	"x87": {
		"9b", "d8 c0", "d9 e8", "d9 00", "d9 6c 24 08", "db 2d 01 02 03 04", "dd 84 24 01 02 03 04", "df e0", "de c1",
	},
	"after 0f": {
		"0f 05", "0f 0b", "0f a2", "0f 31", "0f 77", "0f a0", "0f c8", "49 0f cf", "0f 01 d0", "0f 1f 00", "0f 20 04", "0f 23 c0",
		"0f b9 00", "0f ff 40 01", "0f 10 00", "66 0f 10 40 01", "f3 0f 10 80 01 02 03 04", "f2 0f 10 05 01 02 03 04",
		"0f a4 c0 01", "0f a5 c0", "0f ac 00 01", "0f ba e0 01", "0f ba 24 25 01 02 03 04 05", "0f c2 c0 01", "66 0f c4 c0 01",
		"66 0f c5 c0 01", "0f c6 c0 01", "0f 70 c0 01", "66 0f 71 d0 01", "0f 72 d0 01", "66 0f 73 d8 01", "0f c7 08", "0f ae e8",
		"66 0f 78 c0 01 02", "f2 0f 78 c1 01 02", "66 0f 79 c1", "0f 78 c1", "0f 0d 08", "0f 0e", "0f 0f c1 9e", "0f 0f 40 01 b4",
	},
	"after 0f 38 and 0f 3a": {
		"0f 38 00 00", "66 0f 38 00 c1", "66 0f 38 2a 40 01", "f2 48 0f 38 f1 c1", "0f 38 f0 05 01 02 03 04", "f3 0f 38 f6 c1",
		"0f 3a 0f c1 01", "66 0f 3a 0f 40 01 02", "66 48 0f 3a 22 c0 01", "66 0f 3a 63 04 25 01 02 03 04 05", "0f 3a cc c1 01",
	},
	"VEX": {
		"c5 f8 77", "c5 fc 77", "c4 e1 78 77", "c5 f8 58 c1", "c5 fc 10 40 01", "c5 7c 10 05 01 02 03 04", "c5 f9 70 c1 01", "c5 f1 71 d1 01",
		"c5 f8 c2 c1 01", "c5 f9 c4 c1 01", "c5 f8 ae 10", "c4 e1 7c 58 c1", "c4 e1 78 c6 04 24 01", "c4 e2 79 18 00", "c4 e2 f9 99 40 01",
		"c4 e2 70 f2 c1", "c4 e3 79 04 c1 01", "c4 e3 7d 39 40 01 02", "c4 e3 fb f0 c1 01", "c4 e3 71 4a c1 20", "c4 c1 7c 10 04 24",
	},
	"EVEX": {
		"62 f1 7c 48 58 c1", "62 f1 7c 48 10 40 01", "62 f1 7c 48 10 80 01 02 03 04", "62 f1 7c 48 10 04 24", "62 f1 7d 48 70 c1 01",
		"62 f1 75 48 72 d1 01", "62 f1 74 48 c2 c9 01", "62 f2 7d 48 18 00", "62 f2 fd 48 19 40 01", "62 f3 75 48 03 c1 01",
		"62 f3 fd 48 39 40 01 02", "62 f5 7c 48 58 c1", "62 f6 7d 48 98 c1", "62 f1 7c 48 10 05 01 02 03 04",
	},
	"XOP": {
		"8f e8 78 c0 c1 01", "8f e8 78 a2 c1 20", "8f e9 78 81 c1", "8f e9 78 01 48 01", "8f ea 78 10 c1 01 02 03 04", "8f ea 78 10 00 01 02 03 04",
		"8f 00", "8f c0", "8f 40 01", "8f 04 24", "8f 05 01 02 03 04", "41 8f 80 01 02 03 04",
	},
}

func TestInvalid(t *testing.T) {
	for _, text := range []string{
		"06", "07", "0e", "16", "17", "1e", "1f", "27", "2f", "37", "3f", "60", "61", "82 c0 01", "9a 01 02 03 04 05 06", "ce", "d4 0a", "d5 0a", "d6",
		"ea 01 02 03 04 05 06", "48 06", "66 ea", "0f 04", "0f 0a", "0f 0c", "0f 24 c0", "0f 36", "0f 39 c0", "0f 3b", "0f 3f", "0f a6 00",
		"c4 e0 78 58 c1", "c4 e4 78 58 c1", "c4 ff 78 58 c1", "62 f0 7c 48 58 c1", "62 f7 7c 48 58 c1", "8f eb 78 c0 c1 01",
	} {
		if got, want := Decode(append(bytesOf(t, text), make([]byte, window)...)), (Instruction{Kind: Invalid, Length: 1}); got != want {
			t.Errorf("%s = %+v, want %+v", text, got, want)
		}
	}
}

// TestLongestInstruction adds prefixes up to what processors accept, and beyond.
func TestLongestInstruction(t *testing.T) {
	for _, text := range []string{
		"90", "48 90", "0f 1f 00", "48 b8 01 02 03 04 05 06 07 08", "c7 84 05 01 02 03 04 05 06 07 08", "c5 f8 77", "62 f3 fd 48 39 40 01 02", "e8 01 02 03 04",
	} {
		code := bytesOf(t, text)
		for prefixes := range 3 * window {
			long := append(bytes.Repeat([]byte{0x2e}, prefixes), code...)
			got := Decode(long)
			if len(long) <= maxLength {
				if got.Kind == Invalid || int(got.Length) != len(long) {
					t.Errorf("%s after %d prefixes = %+v, want %d bytes", text, prefixes, got, len(long))
				}
			} else if want := (Instruction{Kind: Invalid, Length: 1}); got != want {
				t.Errorf("%s after %d prefixes = %+v, want %+v", text, prefixes, got, want)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0})
	f.Add([]byte{0xc4, 0xe3, 0x7d, 0x39, 0xc1, 1})
	f.Fuzz(func(t *testing.T, code []byte) {
		i := Decode(code)
		if len(code) > 0 && i.Length == 0 || int(i.Length) > len(code) || i.Length > maxLength && i.Kind != Invalid {
			t.Errorf("% x: %+v", code, i)
		}
	})
}
