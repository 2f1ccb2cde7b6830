package jscore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"ustack/symbolize/v8"
)

// Bounds on what is shown of memory.
const (
	maxShownValues = 1 << 16
	maxShownString = 1 << 16 // bytes
)

// Formats are a sequence of mdb's formats, such as the X, X and p of "2Xp".
type Formats []formatUse

type formatUse struct {
	format
	again bool // it repeats the format before, by a number
}

// ParseFormats parses formats: letters, each after a decimal number if it is repeated.
func ParseFormats(text string) (Formats, error) {
	var l Formats
	count := 0
	for i := range len(text) {
		c := text[i]
		switch f, ok := formatOf(c); {
		case c >= '0' && c <= '9':
			if count = 10*count + int(c-'0'); count > maxShownValues {
				return nil, fmt.Errorf("format %q: more than %d values", text, maxShownValues)
			}
			continue
		case c == ' ':
			continue
		case !ok:
			return nil, fmt.Errorf("format %q: mdb's %q is not known (formats lists those that are)", text, c)
		case f.what == findsNumbers:
			return nil, fmt.Errorf("format %q: %c finds a number, and must be alone (ADDR/%c VALUE)", text, c, c)
		default:
			for i := range max(1, count) {
				l = append(l, formatUse{f, i > 0})
			}
			count = 0
		}
		if len(l) > maxShownValues {
			return nil, fmt.Errorf("format %q: more than %d values", text, maxShownValues)
		}
	}
	if len(l) == 0 || count > 0 {
		return nil, fmt.Errorf("format %q: no letter says how to show it (formats lists them)", text)
	}
	return l, nil
}

// Shown is memory, or a number, in some formats.
type Shown struct {
	Address Address      `json:"address"`
	Values  []ShownValue `json:"values"`
	Error   string       `json:"error,omitempty"` // why the list ends early

	next  uint64 // the address after the last value
	begin uint64 // of the last repetition
	moved uint64 // by the last format, with its number
	step  uint64 // by the format before that, or else that of an earlier command
}

// Last returns where the last repetition of the formats begins, and how many bytes it has.
func (s *Shown) Last() (address, size uint64) { return s.begin, s.next - s.begin }

// A ShownValue is what one format shows.
type ShownValue struct {
	Address Address `json:"address,omitempty"` // where it is
	Format  string  `json:"format"`
	Text    string  `json:"text"`

	label  string // of the address
	breaks bool   // it begins a repetition
}

// Show shows memory, and repeats the formats count times. A format ^ that comes first goes step
// bytes back.
func (d *Dump) Show(l Formats, address, count, step uint64) (*Shown, error) {
	count = max(1, count)
	if count > maxShownValues || count*uint64(len(l)) > maxShownValues {
		return nil, fmt.Errorf("show %d times %d values: more than %d", count, len(l), maxShownValues)
	}
	s := &Shown{Address: Address(address), Values: []ShownValue{}, next: address, moved: step}
	for range count {
		s.begin = s.next
		for i, f := range l {
			at := s.next
			if !f.again {
				s.step, s.moved = s.moved, 0
			}
			text, err := d.shown(f.format, s)
			s.moved += s.next - at
			if err != nil {
				if !s.hasText() {
					return nil, err
				}
				s.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
				return s, nil
			}
			s.Values = append(s.Values, ShownValue{Address(at), string(f.letter), text, d.label(at), i == 0 && len(l) > 1})
		}
	}
	return s, nil
}

// hasText reports whether anything of the memory is shown.
func (s *Shown) hasText() bool {
	return slices.ContainsFunc(s.Values, func(v ShownValue) bool { return strings.TrimSpace(v.Text) != "" })
}

// shown returns what f shows of the memory at s.next, and moves s.next behind it.
func (d *Dump) shown(f format, s *Shown) (string, error) {
	switch f.letter {
	case '+':
		s.next++
		return "", nil
	case '-':
		s.next--
		return "", nil
	case '^':
		s.next -= s.step
		return "", nil
	case 'n', 'N':
		return "\n", nil
	case 't', 'T':
		return "\t", nil
	case 'r':
		return " ", nil
	case 'a':
		return d.label(s.next), nil
	case 's', 'S':
		return d.shownString(f, s)
	case 'i', 'I':
		return d.shownInstruction(f, s)
	}
	b := make([]byte, f.size)
	if n, err := d.ReadAt(b, s.next); n < len(b) {
		return "", err
	}
	s.next += uint64(len(b))
	return d.text(f, b), nil
}

// text returns what f shows of bytes, whose number is f's.
func (d *Dump) text(f format, b []byte) string {
	if f.show != nil {
		return f.show(b)
	}
	return d.label(binary.LittleEndian.Uint64(b))
}

func (d *Dump) shownString(f format, s *Shown) (string, error) {
	b := make([]byte, maxShownString)
	n, err := d.ReadAt(b, s.next)
	if n == 0 {
		return "", err
	}
	end := bytes.IndexByte(b[:n], 0)
	more := ""
	if end < 0 {
		end, more = n, "…"
	}
	s.next += uint64(end) + 1
	if f.letter == 'S' {
		return escaped(b[:end]) + more, nil
	}
	return string(b[:end]) + more, nil
}

func (d *Dump) shownInstruction(f format, s *Shown) (string, error) {
	one, err := d.instructionAt(s.next)
	if err != nil {
		return "", err
	}
	s.next += uint64(len(one.Bytes) / 2)
	if f.letter == 'I' {
		return fmt.Sprintf("%s %s", one.Address, one.Text), nil
	}
	return one.Text, nil
}

// ShowNumber shows a number, not what is at an address.
func (d *Dump) ShowNumber(l Formats, number uint64) (*Shown, error) {
	s := &Shown{Address: Address(number), Values: []ShownValue{}, next: number}
	word := binary.LittleEndian.AppendUint64(nil, number)
	for _, f := range l {
		text := ""
		switch f.letter {
		case 's', 'S', 'i', 'I', '+', '-', '^':
			return nil, fmt.Errorf("format %c: only for memory (ADDR/%c)", f.letter, f.letter)
		case 'n', 'N', 't', 'T', 'r':
			text, _ = d.shown(f.format, s) // reads nothing
		case 'a':
			text = d.label(number)
		default:
			text = d.text(f.format, word[:f.size])
		}
		s.Values = append(s.Values, ShownValue{Format: string(f.letter), Text: text})
	}
	return s, nil
}

// label names an address by its symbol, or else as a number.
func (d *Dump) label(address uint64) string {
	if name := d.symbolOf(address); name != "" {
		return name
	}
	return fmt.Sprintf("0x%x", address)
}

// WriteText writes values in columns, each line after its address.
func (s *Shown) WriteText(w io.Writer) error {
	const columns = 4
	var b strings.Builder
	inLine := 0
	for _, v := range s.Values {
		if inLine > 0 && (v.breaks || inLine == columns) {
			b.WriteByte('\n')
			inLine = 0
		}
		if strings.TrimSpace(v.Text) == "" && v.Format != "c" && v.Format != "s" { // a format that only parts others
			b.WriteString(v.Text)
			if v.Text == "\n" {
				inLine = 0
			}
			continue
		}
		if inLine == 0 && v.label != "" && v.Format != "a" {
			fmt.Fprintf(&b, "%-16s ", v.label+":")
		}
		fmt.Fprintf(&b, "%-16s ", v.Text)
		inLine++
	}
	if inLine > 0 {
		b.WriteByte('\n')
	}
	if s.Error != "" {
		fmt.Fprintf(&b, "<bad>: %s\n", s.Error)
	}
	_, err := io.WriteString(w, trimLines(b.String()))
	return err
}

// trimLines removes blanks at the ends of lines.
func trimLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

// Addresses returns the values that may be addresses: those of eight bytes.
func (s *Shown) Addresses() []v8.Value {
	var values []v8.Value
	for _, v := range s.Values {
		var word uint64
		if _, err := fmt.Sscanf(v.Text, "%x", &word); err == nil && strings.ContainsAny(v.Format, "JK") {
			values = append(values, v8.Value(word))
		}
	}
	return values
}

var errNoCode = errors.New("no instruction there")
