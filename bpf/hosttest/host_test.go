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
	"errors"
	"flag"
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

// A recording is everything that the unwinders read to unwind one stack, and what
// they should find.
type recording struct {
	Node          string // version
	Process       bpf.TraceProcess
	Registers     registers
	ThreadPointer uint64
	Rows          []row
	Memory        []piece // by address: what the kernel's unwinder read
	CoreMemory    []piece // the same of symbolize/v8's

	Frames []string // as text has them
	Calls  []string // the functions that symbolize/v8's unwinder found on the same stack, leaf first

	described []byte // Process and Rows as the C has them, once they were sent
}

// programVariable names the environment variable with the compiled unwinder, by which
// go's fuzzing workers get that of the process that started them.
const programVariable = "USTACK_HOSTTEST_PROGRAM"

// directory is where the unwinder is compiled to.
var directory string

// minimizing bounds the runs by which go's fuzzing makes an input smaller. By default it
// takes a minute for each one that reaches new code; it sees none of the C's code.
const minimizing = "100x"

func TestMain(m *testing.M) {
	err := flag.Set("test.fuzzminimizetime", minimizing) // the command line's goes first
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if directory, err = os.MkdirTemp("", "hosttest"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(directory)
	os.Exit(code)
}

// compiled returns the compiled unwinder. It compiles it once.
func compiled(t testing.TB) string {
	t.Helper()
	if program := os.Getenv(programVariable); program != "" {
		return program
	}
	program := filepath.Join(directory, "host")
	compileHost(t, program)
	if err := os.Setenv(programVariable, program); err != nil {
		t.Fatal(err)
	}
	return program
}

// compileHost compiles the unwinder, with sanitizers where the compiler has them.
func compileHost(t testing.TB, program string) {
	t.Helper()
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
			return
		}
		out, err := exec.Command(compiler, flags...).CombinedOutput()
		if err == nil {
			t.Logf("%s has no sanitizers", compiler)
			return
		}
		failed = out
	}
	if failed == nil {
		nodetest.MustRun(t, "neither gcc nor clang-14 is installed")
	}
	t.Fatalf("compile the unwinder: %s", failed)
}

// A host is the unwinder as a program. It handles one recording after another; if one
// makes it fail, another process handles the next.
type host struct {
	program string
	cmd     *exec.Cmd // nil if none runs
	stdin   io.WriteCloser
	stdout  *bufio.Reader
	stderr  bytes.Buffer
	names   map[uint64]*bpf.TraceName // by id: all that were sent since a first stack
	scripts map[uint64]int32          // of WebAssembly code, by pc: the same
}

func newHost(t testing.TB) *host {
	t.Helper()
	h := &host{program: compiled(t)}
	t.Cleanup(func() {
		if err := h.stop(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *host) start() (err error) {
	h.stderr.Reset()
	cmd := exec.Command(h.program)
	cmd.Stderr = &h.stderr
	if h.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	h.stdout = bufio.NewReaderSize(stdout, maxRecord)
	if err := cmd.Start(); err != nil {
		return err
	}
	h.cmd = cmd
	return nil
}

// stop ends the process if one runs. It returns how it failed.
func (h *host) stop() error {
	if h.cmd == nil {
		return nil
	}
	h.stdin.Close()
	io.Copy(io.Discard, h.stdout)
	err := h.cmd.Wait()
	h.cmd = nil
	if err != nil {
		return fmt.Errorf("the unwinder: %w\n%s", err, &h.stderr)
	}
	return nil
}

// An unwound is what the unwinder says of a stack.
type unwound struct {
	stack    *bpf.TraceStack
	names    map[uint64]*bpf.TraceName // by id: functions and regular expressions
	scripts  map[uint64]int32          // of WebAssembly code, by pc
	failures map[bpf.TraceFailure]uint64
	touched  []touch
	rows     []uint32
}

// A touch is memory that was read.
type touch struct{ Address, Bytes uint64 }

// unwind has the host unwind r's stack, over the memory of process live if that is
// not 0.
func (h *host) unwind(r *recording, live int) (*unwound, error) {
	h.names, h.scripts = map[uint64]*bpf.TraceName{}, map[uint64]int32{}
	return h.send(r.input(input{Live: uint32(live)}))
}

// unwindAgain has the host unwind r's stack with what it remembers of the stack before,
// which must be of the same process.
func (h *host) unwindAgain(r *recording) (*unwound, error) {
	return h.send(r.input(input{Again: 1}))
}

func (h *host) send(in []byte) (*unwound, error) {
	if h.cmd == nil {
		if err := h.start(); err != nil {
			return nil, err
		}
	}
	_, err := h.stdin.Write(in) // it reads all of it before it writes
	var u *unwound
	if err == nil {
		u, err = h.read()
	}
	if err != nil {
		return nil, errors.Join(err, h.stop())
	}
	return u, nil
}

// An input begins what the host reads of a stack.
type input struct {
	ProcessBytes, Live uint32
	IDs, ThreadPointer uint64
	Registers          registers
	Rows, Pieces       uint32
	Again, _           uint32
}

// input returns r as the host reads it.
func (r *recording) input(head input) []byte {
	if r.described == nil {
		r.described = encode(encode(nil, &r.Process), r.Rows)
	}
	head.ProcessBytes = uint32(binary.Size(&r.Process))
	head.IDs, head.ThreadPointer, head.Registers = uint64(tgid)<<32|tgid, r.ThreadPointer, r.Registers
	head.Rows, head.Pieces = uint32(len(r.Rows)), uint32(len(r.Memory))
	in := append(encode(nil, &head), r.described...)
	for _, m := range r.Memory {
		in = binary.LittleEndian.AppendUint64(in, m.Address)
		in = binary.LittleEndian.AppendUint64(in, uint64(len(m.Bytes)))
	}
	for _, m := range r.Memory {
		in = append(in, m.Bytes...)
	}
	return in
}

// encode appends a value of a fixed size as the C has it.
func encode(to []byte, v any) []byte {
	to, err := binary.Append(to, binary.LittleEndian, v)
	if err != nil {
		panic(err) // v is not of a fixed size
	}
	return to
}

func (h *host) read() (*unwound, error) {
	u := &unwound{names: h.names, scripts: h.scripts, failures: map[bpf.TraceFailure]uint64{}}
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
	counters := make([]uint64, bpf.TraceFailureFAILURES)
	if err := get(counters); err != nil {
		return nil, err
	}
	for cause, n := range counters {
		if n > 0 {
			u.failures[bpf.TraceFailure(cause)] = n
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
	case bpf.TraceEventKindEVENT_WASM:
		code := trace.Decode[bpf.TraceWasm](record)
		u.scripts[code.Pc] = code.Script
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
// function's tier, name, script and position, "wasm 3" the module's script. The script is
// sent with the module's first frame alone: others have only their type.
func (u *unwound) text() []string {
	var lines []string
	for _, sent := range u.stack.Frames[:u.stack.Count] {
		frame := sent.Word
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
			if script, ok := u.scripts[frame&pcMask]; ok {
				lines = append(lines, fmt.Sprintf("wasm %d", script))
				continue
			}
			lines = append(lines, fmt.Sprintf("typed %d", frame>>bpf.TraceFrameBitsFRAME_PC_BITS&0xff))
		case bpf.TraceFrameKindFRAME_CODE:
			lines = append(lines, "code")
		case bpf.TraceFrameKindFRAME_LOST:
			lines = append(lines, "lost")
		case bpf.TraceFrameKindFRAME_GAP:
			lines = append(lines, "gap")
		case bpf.TraceFrameKindFRAME_TEXT:
			if name == nil {
				lines = append(lines, "regexp ?")
				continue
			}
			lines = append(lines, fmt.Sprintf("regexp %s", name.Text[:name.Length]))
		default:
			lines = append(lines, fmt.Sprintf("unexpected %#x", frame))
		}
	}
	return lines
}

// calls returns the names of the JavaScript functions and builtins, leaf first.
func (u *unwound) calls() []string {
	var names []string
	for _, sent := range u.stack.Frames[:u.stack.Count] {
		frame := sent.Word
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
