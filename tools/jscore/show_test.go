package jscore

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"golang.org/x/arch/x86/x86asm"
)

// TestFormatsAreMdbs compares with what mdb's manual says of each letter.
func TestFormatsAreMdbs(t *testing.T) {
	word := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	const minusTwo = ^uint64(1)
	for _, tt := range []struct {
		letter byte
		word   []byte
		want   string
	}{
		{'B', word(minusTwo), "fe"},
		{'C', word('\n'), `\n`},
		{'D', word(minusTwo), "-2"},
		{'E', word(minusTwo), "18446744073709551614"},
		{'F', word(math.Float64bits(1.5)), "1.5"},
		{'G', word(8), "10"},
		{'H', word(0x1234), "34120000"},
		{'J', word(minusTwo), "fffffffffffffffe"},
		{'K', word(0x1f3c9), "1f3c9"},
		{'O', word(minusTwo), "037777777776"},
		{'Q', word(minusTwo), "-02"},
		{'R', word(5), "101"},
		{'U', word(minusTwo), "4294967294"},
		{'V', word(minusTwo), "254"},
		{'W', word(minusTwo), "fffffffe"},
		{'X', word(minusTwo), "fffffffe"},
		{'Z', word(minusTwo), "fffffffffffffffe"},
		{'w', word(minusTwo), "fffe"},
		{'Y', word(1e9), "2001 Sep 09 01:46:40"},
		{'b', word(8), "010"},
		{'b', word(0), "0"},
		{'c', word('a'), "a"},
		{'d', word(minusTwo), "-2"},
		{'e', word(minusTwo), "-2"},
		{'f', word(uint64(math.Float32bits(0.1))), "0.1"},
		{'g', word(minusTwo), "-2"},
		{'h', word(0x1234), "3412"},
		{'o', word(minusTwo), "0177776"},
		{'q', word(minusTwo), "-02"},
		{'u', word(minusTwo), "65534"},
		{'v', word(minusTwo), "-2"},
		{'x', word(minusTwo), "fffe"},
		{'y', word(1e9), "2001 Sep 09 01:46:40"},
		{'y', word(1 << 63), "-9223372036854775808"},
		{'g', word(1 << 63), "-1000000000000000000000"},
	} {
		f, ok := formatOf(tt.letter)
		if !ok || f.size == 0 {
			t.Errorf("format %c is not known", tt.letter)
			continue
		}
		if got := f.show(tt.word[:f.size]); got != tt.want {
			t.Errorf("%x in format %c = %q, want %q", tt.word, tt.letter, got, tt.want)
		}
	}
}

func TestFormatsAreParsed(t *testing.T) {
	for text, want := range map[string]string{"X": "X", "2Xp": "XXp", "10c": "cccccccccc", "nap": "nap", "0X": "X", " x x ": "xx", "wWZ": "wWZ", "X2^": "X^^"} {
		formats, err := ParseFormats(text)
		var got strings.Builder
		for _, f := range formats {
			got.WriteByte(f.letter)
		}
		if err != nil || got.String() != want {
			t.Errorf("formats %q = %s, %v, want %s", text, got.String(), err, want)
		}
	}
	for _, text := range []string{"", "3", "X3", "l", "XL", "M", "k", "z", "é", "99999999999999999999X", "65537X", "65536XX"} {
		if formats, err := ParseFormats(text); err == nil {
			t.Errorf("formats %q are %d, want an error", text, len(formats))
		}
	}
}

func FuzzFormats(f *testing.F) {
	for _, seed := range []string{"X", "2Xp", "nap", "65536X", "4i"} {
		f.Add(seed, []byte("0123456789abcdef"))
	}
	f.Fuzz(func(t *testing.T, text string, b []byte) {
		formats, err := ParseFormats(text)
		if err != nil {
			return
		}
		if len(formats) == 0 || len(formats) > maxShownValues {
			t.Fatalf("formats %q are %d, want 1 to %d", text, len(formats), maxShownValues)
		}
		for _, one := range formats {
			if one.show != nil && one.size <= len(b) && one.show(b[:one.size]) == "" {
				t.Errorf("format %c shows nothing of %x", one.letter, b[:one.size])
			}
		}
	})
}

func noSymbol(uint64) (string, uint64) { return "", 0 }

func TestInstructionsAreDisassembled(t *testing.T) {
	for _, tt := range []struct {
		code, text string
		size       int
	}{
		{"554889e5", "push %rbp", 1},
		{"4889e5", "mov %rsp,%rbp", 3},
		{"e800000000", "callq 0x1005", 5},
		{"c5f8285c2410", "vmovaps 0x10(%rsp),%xmm3", 6},
		{"62f17c48586c2401", "vaddps 0x40(%rsp),%zmm0,%zmm5", 8},
		{"8fe978e1c0", unknownInstruction, 5}, // of XOP
		{"e8", unknownInstruction, 1},         // cut off
		{"", "", 0},
	} {
		code, err := hex.DecodeString(tt.code)
		if err != nil {
			t.Fatal(err)
		}
		text, size := decodeX86(code, 0x1000, noSymbol)
		if size != tt.size || size > 0 && text != tt.text {
			t.Errorf("%s = %q of %d bytes, want %q of %d", tt.code, text, size, tt.text, tt.size)
		}
	}
	text, size := decodeARM([]byte{0xfd, 0x7b, 0xbf, 0xa9}, 0x1000, func(uint64) string { return "" })
	if text != "stp x29, x30, [sp,#-16]!" || size != 4 {
		t.Errorf("stp = %q of %d bytes", text, size)
	}
	text, _ = decodeARM([]byte{0x02, 0, 0, 0x94}, 0x1000, func(a uint64) string {
		if a == 0x1008 {
			return "callee"
		}
		return ""
	})
	if !strings.HasSuffix(text, "// 1008 callee") {
		t.Errorf("bl = %q, want its target's name", text)
	}
}

func FuzzInstructions(f *testing.F) {
	for _, code := range []string{"554889e5", "c5f8285c2410", "62f17c48586c2401", "e800000000", "c4e2f9f7c0", "fd7bbfa9", "02000094"} {
		b, err := hex.DecodeString(code)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint64(0x1000))
	}
	var symbol x86asm.SymLookup = func(a uint64) (string, uint64) { return "symbol", a - 1 }
	f.Fuzz(func(t *testing.T, code []byte, address uint64) {
		if text, size := decodeX86(code, address, symbol); size < 0 || size > len(code) || size > 0 && text == "" {
			t.Errorf("x86-64: %x = %q of %d bytes", code, text, size)
		}
		if text, size := decodeARM(code, address, func(uint64) string { return "symbol" }); size < 0 || size > len(code) || size > 0 && text == "" {
			t.Errorf("arm64: %x = %q of %d bytes", code, text, size)
		}
	})
}
