package release_test

import (
	"bufio"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"ustack/testdata/nodetest"
)

// A probe is a Node.js process that evaluates JavaScript with natives syntax. It
// does nothing between evaluations, so that its memory can be read.
type probe struct {
	pid    int
	input  io.Writer
	output *bufio.Scanner
	memory *os.File
	kind   func(*probe, tagged) string // of a value
}

// maxPrinted bounds a line that the process prints.
const maxPrinted = 1 << 24

// startProbe runs node until the test ends.
func startProbe(t testing.TB, node string, flags ...string) *probe {
	t.Helper()
	flags = append(flags, "--allow-natives-syntax", "--expose-gc", "--min-semi-space-size=64", "testdata/probe.js")
	cmd := exec.CommandContext(t.Context(), node, flags...)
	input, output := nodetest.StartPiped(t, cmd)
	p := &probe{pid: cmd.Process.Pid, input: input, output: bufio.NewScanner(output)}
	p.output.Buffer(nil, maxPrinted)
	p.memory = openMemory(t, p.pid)
	return p
}

// evaluate runs a line of JavaScript and returns what it printed.
func (p *probe) evaluate(line string) (string, error) {
	if _, err := io.WriteString(p.input, line+"\n"); err != nil {
		return "", err
	}
	var printed strings.Builder
	for p.output.Scan() {
		if p.output.Text() == "ready" {
			text := printed.String()
			if _, message, ok := strings.Cut(text, "error: "); ok {
				return text, fmt.Errorf("evaluate %s: %s", line, strings.TrimSpace(message))
			}
			return text, nil
		}
		printed.WriteString(p.output.Text() + "\n")
	}
	return "", fmt.Errorf("evaluate %s: the process ended: %w", line, io.ErrUnexpectedEOF)
}

// A tagged is a Value as V8 stores it: a Smi in the upper half, or an address plus
// one.
type tagged uint64

var (
	printedSmi     = regexp.MustCompile(`^DebugPrint: Smi: \S+ \((-?\d+)\)`)
	printedAddress = regexp.MustCompile(`^DebugPrint: (0x[0-9a-f]+)`)
)

// describe prints a value and returns it with what V8 prints about it.
func (p *probe) describe(expression string) (tagged, string, error) {
	text, err := p.evaluate("%DebugPrint(" + expression + ")")
	if err != nil {
		return 0, "", err
	}
	for _, form := range []*regexp.Regexp{printedSmi, printedAddress} {
		if found := form.FindStringSubmatch(text); found != nil {
			return value(found[1]), text, nil
		}
	}
	return 0, text, fmt.Errorf("print %s: no address in %.200q", expression, text)
}

// describeAt prints the object at an address.
func (p *probe) describeAt(v tagged) (string, error) {
	return p.evaluate(strconv.FormatUint(uint64(v), 10))
}

// value returns what V8 prints as a number in hexadecimal or as a Smi.
func value(text string) tagged {
	if digits, ok := strings.CutPrefix(text, "0x"); ok {
		address, _ := strconv.ParseUint(digits, 16, 64)
		return tagged(address)
	}
	number, _ := strconv.ParseInt(text, 10, 32)
	return tagged(uint64(number) << 32)
}

// read returns size bytes from an address.
func (p *probe) read(address uint64, size int) ([]byte, error) {
	data := make([]byte, size)
	if _, err := p.memory.ReadAt(data, int64(address)); err != nil {
		return nil, fmt.Errorf("read %#x: %w", address, err)
	}
	return data, nil
}

// readUpTo returns size bytes from an address, or those before the first that cannot
// be read: an object may be the last of its page.
func (p *probe) readUpTo(address uint64, size int) ([]byte, error) {
	data := make([]byte, size)
	n, err := p.memory.ReadAt(data, int64(address))
	if n == 0 {
		return nil, fmt.Errorf("read %#x: %w", address, err)
	}
	return data[:n], nil
}

func (p *probe) word(address uint64) (uint64, error) {
	data, err := p.read(address, 8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(data), nil
}

// A nodeBinary has what a Node.js binary says about itself.
type nodeBinary struct {
	symbols  map[string]uint64 // addresses
	metadata map[string]int64  // values of v8dbg_*, without that prefix
}

// readBinary reads the symbols of a binary.
func readBinary(t testing.TB, path string) *nodeBinary {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatalf("read symbols of %s: %v", path, err)
	}
	b := &nodeBinary{symbols: map[string]uint64{}, metadata: map[string]int64{}}
	for _, s := range symbols {
		b.symbols[s.Name] = s.Value
		name, ok := strings.CutPrefix(s.Name, "v8dbg_")
		if !ok || int(s.Section) >= len(f.Sections) {
			continue
		}
		section, number := f.Sections[s.Section], make([]byte, 4)
		if section.Type == elf.SHT_NOBITS {
			b.metadata[name] = 0
			continue
		}
		if _, err := section.ReadAt(number, int64(s.Value-section.Addr)); err != nil {
			t.Fatalf("read %s: %v", s.Name, err)
		}
		b.metadata[name] = int64(int32(binary.LittleEndian.Uint32(number)))
	}
	return b
}

// lookup returns the metadata whose name begins with prefix.
func (b *nodeBinary) lookup(prefix string) (int64, bool) {
	for name, v := range b.metadata {
		if strings.HasPrefix(name, prefix) {
			return v, true
		}
	}
	return 0, false
}
