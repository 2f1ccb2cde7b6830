package hosttest

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/calls"
)

// callers has functions of the baseline compiler that are called in each way: by code of
// the baseline compiler, by optimized code, by a builtin, by one in C++, as a constructor,
// and by themselves. Each caller's name is its callee's with "By" before it.
const callers = `
function Baseline(n) { return n + 1; }
function ByBaseline(n) { return Baseline(n); }
function Turbofan(n) { return n + 1; }
function ByTurbofan(n) { return Turbofan(n); }
function Builtin(n) { return n + 1; }
function ByBuiltin(n) { return [n].forEach(Builtin); }
function CPlusPlus(key, value) { return value; }
function ByCPlusPlus(n) { return JSON.parse('1', CPlusPlus); }
function Constructor(n) { this.n = n; }
function ByConstructor(n) { return new Constructor(n); }
function Recursion(n) { return n ? Recursion(n - 1) : 1; }
function ByRecursion(n) { return Recursion(2); }
function loop() {
  for (let n = 0; ; n++) {
    ByBaseline(n);
    ByTurbofan(n);
    ByBuiltin(n);
    ByCPlusPlus(n);
    ByConstructor(n);
    ByRecursion(n);
  }
}
for (const f of [Baseline, Turbofan, Builtin, CPlusPlus, Constructor, Recursion, ByBaseline, ByBuiltin, ByCPlusPlus, ByConstructor, ByRecursion, loop])
  %NeverOptimizeFunction(f);
%PrepareFunctionForOptimization(ByTurbofan);
ByTurbofan(1);
%OptimizeFunctionOnNextCall(ByTurbofan);
ByTurbofan(1);
console.log('ready');
loop();`

// callees are the functions of callers that others call.
var callees = []string{"Baseline", "Turbofan", "Builtin", "CPlusPlus", "Constructor", "Recursion"}

// TestCalleeIsInnermostWhileItsFrameIsBuilt single-steps the builtin that builds the
// frames of baseline code: at each instruction the functions are those that are on the
// stack when it returns, also where it calls the runtime because the stack might be full.
func TestCalleeIsInnermostWhileItsFrameIsBuilt(t *testing.T) {
	nodetest.Root(t)
	versions := []string{"20.20.2", "24.21.0"}
	if os.Getenv("USTACK_MATRIX") == "1" {
		versions = nodetest.Versions
	}
	for _, version := range versions {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			flags := []string{"--sparkplug", "--always-sparkplug", "--allow-natives-syntax"}
			if nodetest.Major(version) >= 20 {
				flags = append(flags, "--no-maglev")
			}
			target := calls.StartSource(t, version, callers, flags...)
			s := &stepper{T: t, pid: target.PID, h: newHost(t), r: &recording{Node: version}}
			describe(t, s.pid, s.r)
			s.r.dropRows() // each stack would be sent with all of node's
			s.attach()
			for _, full := range []bool{false, true} {
				s.visitAll(full)
			}
		})
	}
}

// A stepper steps a process's main thread through the builtin.
type stepper struct {
	*testing.T
	pid    int
	h      *host
	r      *recording
	starts []uint64 // of the builtin: V8 may have mapped its builtins a second time
}

const (
	builderBytes = 0x2b0 // of the builtin: 16.20.2 to 26.10.0 have fewer or as many
	breakpoint   = 0xcc  // int3
	below        = 0x820f
	carry        = 1   // bit of the flags: jb jumps
	stride       = 101 // instructions between stacks in what the builtin calls
	maxVisits    = 500
)

// attach stops the main thread. Only the test's thread may step it.
func (s *stepper) attach() {
	s.Helper()
	l := &s.r.Process.Layout
	if l.Builder == 0 {
		s.Fatal("the builtin is not known")
	}
	for _, r := range s.r.Process.Ranges[:s.r.Process.RangeCount] {
		if kindOf(r) == bpf.TraceCodeCODE_BUILTIN {
			s.starts = append(s.starts, r.Start+uint64(l.Builder))
		}
	}
	runtime.LockOSThread()
	s.Cleanup(runtime.UnlockOSThread)
	s.must(unix.PtraceSeize(s.pid))
	s.must(unix.PtraceInterrupt(s.pid))
	stepped(s.T, s.pid)
}

// dropRows removes the unwind tables: frame pointers lead from what the builtin calls to
// JavaScript.
func (r *recording) dropRows() {
	r.Rows = nil
	for i := range r.Process.Ranges {
		r.Process.Ranges[i].RowCount = 0
	}
}

func kindOf(r bpf.TraceRange) bpf.TraceCode {
	return bpf.TraceCode(r.End & uint64(bpf.TraceRangeBitRANGE_CODE))
}

func (s *stepper) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// visitAll steps through the builtin until it was called by each of the callees.
func (s *stepper) visitAll(full bool) {
	s.Helper()
	missing := slices.Clone(callees)
	for range maxVisits {
		callee := s.visit(full)
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == callee })
		if len(missing) == 0 {
			return
		}
	}
	s.Errorf("never called: %v", missing)
}

// visit lets the main thread run until a function calls the builtin, and steps it until that
// returns. It compares the stacks, and returns the function's name.
func (s *stepper) visit(full bool) string {
	s.Helper()
	at := s.enter()
	var stacks []unwoundAt
	for steps := 0; !s.isJIT(at.Rip); steps++ {
		if s.isInside(at.Rip) || steps%stride == 0 {
			stacks = append(stacks, unwoundAt{at.Rip, s.isInside(at.Rip), s.unwind(at)})
		}
		var code [2]byte
		_, err := unix.PtracePeekText(s.pid, uintptr(at.Rip), code[:])
		s.must(err)
		if full && s.isInside(at.Rip) && binary.LittleEndian.Uint16(code[:]) == below {
			at.Eflags |= carry
			s.must(unix.PtraceSetRegs(s.pid, at))
		}
		at = s.step()
	}
	want := s.unwind(at)
	if len(want) < 2 {
		s.Fatalf("calls = %v, want a function and its caller", want)
	}
	if caller := slices.Index(callees, want[0]); caller >= 0 && !slices.Contains(want, "By"+want[0]) {
		s.Errorf("calls = %v, want By%s among them", want, want[0])
	}
	for _, got := range stacks {
		if diff := cmp.Diff(want, got.calls); diff != "" {
			s.Errorf("calls at %#x of %#x, full = %v (-when it has returned +there):\n%s", got.pc, s.starts, full, diff)
		}
	}
	return want[0]
}

// An unwoundAt has the functions on the stack at an instruction.
type unwoundAt struct {
	pc     uint64
	inside bool // the builtin
	calls  []string
}

// enter lets the main thread run until it is at the builtin's first instruction.
func (s *stepper) enter() *unix.PtraceRegs {
	s.Helper()
	saved := make([]byte, len(s.starts))
	for i, start := range s.starts {
		_, err := unix.PtracePeekText(s.pid, uintptr(start), saved[i:i+1])
		s.must(err)
		_, err = unix.PtracePokeText(s.pid, uintptr(start), []byte{breakpoint})
		s.must(err)
	}
	signal := unix.Signal(0)
	for signal != unix.SIGTRAP {
		s.must(unix.PtraceCont(s.pid, int(signal)))
		signal, _ = stepped(s.T, s.pid)
	}
	for i, start := range s.starts {
		_, err := unix.PtracePokeText(s.pid, uintptr(start), saved[i:i+1])
		s.must(err)
	}
	var at unix.PtraceRegs
	s.must(unix.PtraceGetRegs(s.pid, &at))
	at.Rip-- // the breakpoint has one byte
	if !slices.Contains(s.starts, at.Rip) {
		s.Fatalf("trapped at %#x, want one of %#x", at.Rip, s.starts)
	}
	s.must(unix.PtraceSetRegs(s.pid, &at))
	return &at
}

// step has the main thread execute one instruction.
func (s *stepper) step() *unix.PtraceRegs {
	s.Helper()
	s.must(unix.PtraceSingleStep(s.pid))
	if signal, _ := stepped(s.T, s.pid); signal != unix.SIGTRAP {
		s.Fatalf("the thread stopped with %v", signal)
	}
	var at unix.PtraceRegs
	s.must(unix.PtraceGetRegs(s.pid, &at))
	return &at
}

// isInside reports whether pc is in the builtin.
func (s *stepper) isInside(pc uint64) bool {
	return slices.ContainsFunc(s.starts, func(start uint64) bool { return pc-start < builderBytes })
}

// isJIT reports whether pc is in code of V8's compilers.
func (s *stepper) isJIT(pc uint64) bool {
	return slices.ContainsFunc(s.r.Process.Ranges[:s.r.Process.RangeCount], func(r bpf.TraceRange) bool {
		return kindOf(r) == bpf.TraceCodeCODE_JIT && r.Start <= pc && pc < r.End&^uint64(bpf.TraceRangeBitRANGE_BITS)
	})
}

// unwind returns the functions on the stack of the stopped thread.
func (s *stepper) unwind(at *unix.PtraceRegs) []string {
	s.Helper()
	s.r.ThreadPointer = at.Fs_base
	s.r.Registers = registers{
		R15: at.R15, R14: at.R14, R13: at.R13, R12: at.R12, BP: at.Rbp, BX: at.Rbx, R11: at.R11, R10: at.R10, R9: at.R9, R8: at.R8,
		AX: at.Rax, CX: at.Rcx, DX: at.Rdx, SI: at.Rsi, DI: at.Rdi, OrigAX: at.Orig_rax, IP: at.Rip, CS: at.Cs, Flags: at.Eflags, SP: at.Rsp, SS: at.Ss,
	}
	u, err := s.h.unwind(s.r, s.pid)
	s.must(err)
	return u.calls()
}
