// Package hosttest tests the kernel's unwinder without a kernel: the same C,
// compiled for the host, unwinds stacks that were recorded from real processes
// (testdata), or that are damaged.
package hosttest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"ustack/bpf"
	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

const (
	tgid      = 4242 // of every recorded process
	maxRecord = 1 << 16
)

// registers is struct pt_regs of x86-64.
type registers struct {
	R15, R14, R13, R12, BP, BX, R11, R10, R9, R8, AX, CX, DX, SI, DI uint64
	OrigAX, IP, CS, Flags, SP, SS                                    uint64
}

// A piece is some recorded memory.
type piece struct {
	Address uint64
	Bytes   hexBytes
}

// hexBytes are hexadecimal in JSON, which is compressed better than base64.
type hexBytes []byte

func (b hexBytes) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, b), nil }

func (b *hexBytes) UnmarshalText(text []byte) (err error) {
	*b, err = hex.AppendDecode(nil, text)
	return err
}

// A row is a row of the unwind tables, with its number.
type row struct {
	Key uint32
	Row bpf.TraceUnwindRow
}

// A recording is everything that the unwinder read to unwind one stack, and what
// it should find.
type recording struct {
	Node          string // version
	Process       bpf.TraceProcess
	Registers     registers
	ThreadPointer uint64
	Rows          []row
	Memory        []piece

	Frames []string // as text has them
	Calls  []string // the functions that symbolize/v8's unwinder found on the same stack, leaf first
}

// A host is the unwinder as a program. It handles one recording after another.
type host struct {
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr bytes.Buffer
	cmd    *exec.Cmd
}

// compileHost compiles the unwinder, with sanitizers where the compiler has them.
func compileHost(t testing.TB) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "host")
	flags := []string{
		"-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-Wno-sign-compare",
		"-D__TARGET_ARCH_x86", "-I", "include", "-o", program, "host.c",
	}
	sanitize := []string{"-fsanitize=address,undefined", "-fno-sanitize-recover=all"}
	var failed []byte
	for _, compiler := range []string{"gcc", "clang-14"} {
		if _, err := exec.LookPath(compiler); err != nil {
			continue
		}
		if exec.Command(compiler, append(sanitize, flags...)...).Run() == nil {
			return program
		}
		out, err := exec.Command(compiler, flags...).CombinedOutput()
		if err == nil {
			t.Logf("%s has no sanitizers", compiler)
			return program
		}
		failed = out
	}
	if failed == nil {
		nodetest.MustRun(t, "neither gcc nor clang-14 is installed")
	}
	t.Fatalf("compile the unwinder: %s", failed)
	return ""
}

func startHost(t testing.TB, program string) *host {
	t.Helper()
	h := &host{cmd: exec.Command(program)}
	h.cmd.Stderr = &h.stderr
	var err error
	if h.stdin, err = h.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	h.stdout = bufio.NewReader(stdout)
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.stdin.Close()
		io.Copy(io.Discard, h.stdout)
		if err := h.cmd.Wait(); err != nil {
			t.Errorf("the unwinder: %v\n%s", err, &h.stderr)
		}
	})
	return h
}

// An unwound is what the unwinder says of a stack.
type unwound struct {
	stack    *bpf.TraceStack
	names    map[uint64]*bpf.TraceName // by id: functions and regular expressions
	failures map[bpf.TraceFailure]uint64
	touched  []touch
	rows     []uint32
}

// A touch is memory that was read.
type touch struct{ Address, Bytes uint64 }

// unwind has the host unwind r's stack, over the memory of process live if that is
// not 0.
func (h *host) unwind(r *recording, live int) (*unwound, error) {
	var in bytes.Buffer
	process := encode(&r.Process)
	for _, part := range []any{
		uint32(len(process)), uint32(live), uint64(tgid)<<32 | tgid, r.ThreadPointer, r.Registers,
		uint32(len(r.Rows)), uint32(len(r.Memory)), process,
	} {
		if err := binary.Write(&in, binary.LittleEndian, part); err != nil {
			return nil, err
		}
	}
	for _, row := range r.Rows {
		in.Write(encode(&row))
	}
	for _, m := range r.Memory {
		in.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, m.Address), uint64(len(m.Bytes))))
		in.Write(m.Bytes)
	}
	if _, err := h.stdin.Write(in.Bytes()); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, &h.stderr)
	}
	u, err := h.read()
	if err != nil {
		err = fmt.Errorf("read what it found: %w\n%s", err, &h.stderr)
	}
	return u, err
}

// encode returns a fixed-size struct as the C has it.
func encode[T any](v *T) []byte {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
		panic(err) // T is not of a fixed size
	}
	return b.Bytes()
}

func (h *host) read() (*unwound, error) {
	u := &unwound{names: map[uint64]*bpf.TraceName{}, failures: map[bpf.TraceFailure]uint64{}}
	var size uint32
	get := func(to any) error { return binary.Read(h.stdout, binary.LittleEndian, to) }
	for {
		if err := get(&size); err != nil {
			return nil, err
		}
		if size == 0 {
			break
		}
		if size < 4 || size > maxRecord {
			return nil, fmt.Errorf("a record of %d bytes", size)
		}
		record := make([]byte, size)
		if _, err := io.ReadFull(h.stdout, record); err != nil {
			return nil, err
		}
		u.add(record)
	}
	for cause := range bpf.TraceFailureFAILURES {
		var n uint64
		if err := get(&n); err != nil {
			return nil, err
		}
		if n > 0 {
			u.failures[cause] = n
		}
	}
	if err := get(&size); err != nil {
		return nil, err
	}
	u.touched = make([]touch, size)
	if err := get(u.touched); err != nil {
		return nil, err
	}
	if err := get(&size); err != nil {
		return nil, err
	}
	u.rows = make([]uint32, size)
	return u, get(u.rows)
}

func (u *unwound) add(record []byte) {
	switch bpf.TraceEventKind(binary.LittleEndian.Uint32(record)) {
	case bpf.TraceEventKindEVENT_STACK:
		u.stack = trace.Decode[bpf.TraceStack](record)
	case bpf.TraceEventKindEVENT_FUNCTION:
		name := trace.Decode[bpf.TraceName](record)
		u.names[name.Id] = name
	}
}

// The parts of a frame's word.
const (
	pcMask = 1<<bpf.TraceFrameBitsFRAME_PC_BITS - 1
	idMask = 1<<bpf.TraceFrameBitsFRAME_ID_BITS - 1
)

var tiers = map[bpf.TraceTier]string{
	bpf.TraceTierTIER_NONE: "builtin", bpf.TraceTierTIER_INTERPRETED: "interpreted", bpf.TraceTierTIER_BASELINE: "baseline",
	bpf.TraceTierTIER_MAGLEV: "maglev", bpf.TraceTierTIER_TURBOFAN: "turbofan", bpf.TraceTierTIER_OPTIMIZED: "optimized",
}

// text returns the frames in words, leaf first: "interpreted leaf 1:120" has the
// function's tier, name, script and position.
func (u *unwound) text() []string {
	var lines []string
	for _, frame := range u.stack.Frames[:u.stack.Count] {
		name := u.names[frame&idMask]
		switch bpf.TraceFrameKind(frame >> bpf.TraceFrameBitsFRAME_KIND_SHIFT) {
		case bpf.TraceFrameKindFRAME_NATIVE:
			lines = append(lines, fmt.Sprintf("native %#x", frame&pcMask))
		case bpf.TraceFrameKindFRAME_JS:
			tier := tiers[bpf.TraceTier(frame>>bpf.TraceFrameBitsFRAME_ID_BITS&15)]
			if name == nil {
				lines = append(lines, tier+" ?")
				continue
			}
			lines = append(lines, fmt.Sprintf("%s %s %d:%d", tier, name.Text[:name.Length], name.Script, name.Start))
		case bpf.TraceFrameKindFRAME_TYPED:
			lines = append(lines, fmt.Sprintf("typed %d", frame>>bpf.TraceFrameBitsFRAME_PC_BITS&0xff))
		case bpf.TraceFrameKindFRAME_CODE:
			lines = append(lines, "code")
		case bpf.TraceFrameKindFRAME_LOST:
			lines = append(lines, "lost")
		case bpf.TraceFrameKindFRAME_GAP:
			lines = append(lines, "gap")
		case bpf.TraceFrameKindFRAME_TEXT:
			lines = append(lines, "regexp")
		default:
			lines = append(lines, fmt.Sprintf("unexpected %#x", frame))
		}
	}
	return lines
}

// calls returns the names of the JavaScript functions and builtins, leaf first.
func (u *unwound) calls() []string {
	var names []string
	for _, frame := range u.stack.Frames[:u.stack.Count] {
		if bpf.TraceFrameKind(frame>>bpf.TraceFrameBitsFRAME_KIND_SHIFT) != bpf.TraceFrameKindFRAME_JS {
			continue
		}
		switch name := u.names[frame&idMask]; {
		case name == nil:
			names = append(names, "?")
		case name.Length == 0:
			names = append(names, "(anonymous)")
		default:
			names = append(names, string(name.Text[:name.Length]))
		}
	}
	return names
}

// recordings returns the recordings in testdata, by file.
func recordings(t testing.TB) map[string]*recording {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*.json.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	all := map[string]*recording{}
	for _, file := range files {
		packed, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		r := new(recording)
		if err := json.NewDecoder(z).Decode(r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = r
	}
	return all
}
