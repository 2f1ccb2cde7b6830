package jscore

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// A format is one of mdb's ways to show what is in memory.
type format struct {
	letter byte
	size   int // bytes; 0: it varies, or nothing is read
	what   string
	show   func(b []byte) string // nil: see shown
}

// formats are those of mdb that only read, in the order in which mdb lists them.
var formats = []format{
	{'+', 0, "skip a byte", nil},
	{'-', 0, "go back a byte", nil},
	{'B', 1, "hexadecimal", hexadecimal},
	{'C', 1, "character, escaped as in C", escaped},
	{'D', 4, "decimal, signed", decimal},
	{'E', 8, "decimal, unsigned", unsigned},
	{'F', 8, "floating point", func(b []byte) string {
		return strconv.FormatFloat(math.Float64frombits(binary.LittleEndian.Uint64(b)), 'g', -1, 64)
	}},
	{'G', 8, "octal, unsigned", func(b []byte) string { return strconv.FormatUint(low(b), 8) }},
	{'H', 4, "hexadecimal, with the bytes in reverse order", swapped},
	{'I', 0, "address and instruction", nil},
	{'J', 8, "hexadecimal", hexadecimal},
	{'K', 8, "hexadecimal", hexadecimal},
	{'L', 4, findsNumbers, nil},
	{'M', 8, findsNumbers, nil},
	{'N', 0, "new line", nil},
	{'O', 4, "octal, unsigned", octal},
	{'P', 8, "symbol", nil},
	{'Q', 4, "octal, signed", signedOctal},
	{'R', 8, "binary", func(b []byte) string { return strconv.FormatUint(low(b), 2) }},
	{'S', 0, "string up to a zero, escaped as in C", nil},
	{'T', 0, "tab", nil},
	{'U', 4, "decimal, unsigned", unsigned},
	{'V', 1, "decimal, unsigned", unsigned},
	{'W', 4, "hexadecimal", hexadecimal},
	{'X', 4, "hexadecimal", hexadecimal},
	{'Y', 4, "time in seconds since 1970, UTC", moment},
	{'Z', 8, "hexadecimal", hexadecimal},
	{'^', 0, "go back over what the format before has shown", nil},
	{'a', 0, "address, as symbol and offset", nil},
	{'b', 1, "octal, unsigned", octal},
	{'c', 1, "character", func(b []byte) string { return string(rune(b[0])) }},
	{'d', 2, "decimal, signed", decimal},
	{'e', 8, "decimal, signed", decimal},
	{'f', 4, "floating point", func(b []byte) string {
		return strconv.FormatFloat(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), 'g', -1, 32)
	}},
	{'g', 8, "octal, signed", func(b []byte) string { return strconv.FormatInt(signed(b), 8) }},
	{'h', 2, "hexadecimal, with the bytes in reverse order", swapped},
	{'i', 0, "instruction", nil},
	{'l', 2, findsNumbers, nil},
	{'n', 0, "new line", nil},
	{'o', 2, "octal, unsigned", octal},
	{'p', 8, "symbol", nil},
	{'q', 2, "octal, signed", signedOctal},
	{'r', 0, "blank", nil},
	{'s', 0, "string up to a zero", nil},
	{'t', 0, "tab", nil},
	{'u', 2, "decimal, unsigned", unsigned},
	{'v', 1, "decimal, signed", decimal},
	{'w', 2, "hexadecimal", hexadecimal},
	{'x', 2, "hexadecimal", hexadecimal},
	{'y', 8, "time in seconds since 1970, UTC", moment},
}

// findsNumbers is what mdb's l, L and M do.
const findsNumbers = "find a number"

// WritesMemory reports whether mdb writes to memory if this letter is the first format.
func WritesMemory(letter byte) bool { return strings.IndexByte("vwWzZ", letter) >= 0 }

// MatchSize returns how many bytes the numbers have that a format finds; ok is false if it finds none.
func MatchSize(letter byte) (size int, ok bool) {
	f, ok := formatOf(letter)
	return f.size, ok && f.what == findsNumbers
}

// formatOf returns the format with that letter.
func formatOf(letter byte) (format, bool) {
	for _, f := range formats {
		if f.letter == letter {
			return f, true
		}
	}
	return format{}, false
}

// low returns bytes as an unsigned number.
func low(b []byte) uint64 {
	var word [8]byte
	copy(word[:], b)
	return binary.LittleEndian.Uint64(word[:])
}

// signed returns bytes as a signed number.
func signed(b []byte) int64 {
	unused := 64 - 8*len(b)
	return int64(low(b)<<unused) >> unused
}

func hexadecimal(b []byte) string { return strconv.FormatUint(low(b), 16) }
func unsigned(b []byte) string    { return strconv.FormatUint(low(b), 10) }
func decimal(b []byte) string     { return strconv.FormatInt(signed(b), 10) }

// octal returns a number with the 0 that begins an octal one in C.
func octal(b []byte) string {
	if low(b) == 0 {
		return "0"
	}
	return "0" + strconv.FormatUint(low(b), 8)
}

func signedOctal(b []byte) string {
	if n := signed(b); n < 0 {
		return "-0" + strconv.FormatUint(uint64(-n), 8)
	}
	return octal(b)
}

func swapped(b []byte) string {
	return strconv.FormatUint(bits.ReverseBytes64(low(b))>>(64-8*len(b)), 16)
}

// escaped returns bytes as the inside of a string of C.
func escaped(b []byte) string {
	quoted := strconv.QuoteToASCII(string(b))
	return quoted[1 : len(quoted)-1]
}

func moment(b []byte) string {
	const years = 1 << 38 // seconds: beyond, it is no time
	if n := signed(b); n > -years && n < years {
		return time.Unix(n, 0).UTC().Format("2006 Jan 02 15:04:05")
	}
	return decimal(b)
}

// A FormatList is all formats.
type FormatList []FormatName

// A FormatName is a format's letter, and what it shows.
type FormatName struct {
	Letter string `json:"letter"`
	Size   int    `json:"size,omitempty"` // in bytes; 0 if it varies, or if nothing is read
	What   string `json:"what"`
}

// AllFormats lists the formats of Show.
func AllFormats() FormatList {
	list := FormatList{}
	for _, f := range formats {
		list = append(list, FormatName{string(f.letter), f.size, f.what})
	}
	return list
}

// WriteText writes a line for each format.
func (l FormatList) WriteText(w io.Writer) error {
	for _, f := range l {
		size := ""
		if f.Size > 0 {
			size = fmt.Sprintf(" (%d bytes)", f.Size)
		}
		if _, err := fmt.Fprintf(w, "%s  %s%s\n", f.Letter, f.What, size); err != nil {
			return err
		}
	}
	return nil
}
