package loader

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
)

// counted is the name of the test program, which counts its runs.
const counted = "loader_counts"

// objects are the test's programs and maps, as bpf2go generates them.
type objects struct {
	Count *ebpf.Program `ebpf:"loader_counts"`
	Hits  *ebpf.Map     `ebpf:"hits"`
}

func (o *objects) Close() error { return errors.Join(o.Count.Close(), o.Hits.Close()) }

// hits returns how often the program has run.
func (o *objects) hits(t *testing.T) (n uint64) {
	t.Helper()
	if err := o.Hits.Lookup(uint32(0), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// counting returns a program that counts its runs in a map.
func counting(kind ebpf.ProgramType) *ebpf.CollectionSpec {
	return &ebpf.CollectionSpec{
		Maps: map[string]*ebpf.MapSpec{
			"hits": {Name: "hits", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1},
		},
		Programs: map[string]*ebpf.ProgramSpec{counted: {
			Name: counted, Type: kind, License: "GPL",
			Instructions: asm.Instructions{
				asm.StoreImm(asm.RFP, -4, 0, asm.Word),
				asm.LoadMapPtr(asm.R1, 0).WithReference("hits"),
				asm.Mov.Reg(asm.R2, asm.RFP),
				asm.Add.Imm(asm.R2, -4),
				asm.FnMapLookupElem.Call(),
				asm.JEq.Imm(asm.R0, 0, "out"),
				asm.Mov.Imm(asm.R1, 1),
				asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
				asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
				asm.Return(),
			},
		}},
	}
}

// loadCounting loads the test program until the test ends.
func loadCounting(t *testing.T, kind ebpf.ProgramType) *objects {
	t.Helper()
	nodetest.Root(t)
	nodetest.NothingLeft(t, counted)
	spec := counting(kind)
	PrepareProbes(spec)
	o := &objects{}
	others, misses, err := Load(spec, o)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := misses(); err != nil || len(m) > 0 {
		t.Errorf("misses = %v, %v, want none: nothing has run yet", m, err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	if len(others) > 0 {
		t.Errorf("other programs = %v, want none", others)
	}
	return o
}

func TestProgramsWithoutAFieldAreReturned(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, counted)
	var maps struct {
		Hits *ebpf.Map `ebpf:"hits"`
	}
	others, _, err := Load(counting(ebpf.RawTracepoint), &maps)
	if err != nil {
		t.Fatal(err)
	}
	if len(others) != 1 || others[counted] == nil {
		t.Errorf("other programs = %v, want %s", others, counted)
	}
	for _, p := range others {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := maps.Hits.Close(); err != nil {
		t.Error(err)
	}
}

// TestRefusedProgramsLeaveNothing loads what the verifier, or the objects, refuse.
func TestRefusedProgramsLeaveNothing(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, counted)
	unverified := counting(ebpf.RawTracepoint)
	unverified.Programs[counted].Instructions = asm.Instructions{asm.Return()} // of a result that was never set
	var verifier *ebpf.VerifierError
	if _, _, err := Load(unverified, &objects{}); !errors.As(err, &verifier) || !strings.HasPrefix(err.Error(), "load BPF programs: ") {
		t.Errorf("err = %v, want the verifier's", err)
	}
	var lacking struct {
		Other *ebpf.Program `ebpf:"other"`
	}
	if _, _, err := Load(counting(ebpf.RawTracepoint), &lacking); err == nil || !strings.HasPrefix(err.Error(), "assign BPF programs: ") {
		t.Errorf("err = %v, want that there is no such program", err)
	}
	if _, err := NewProgram(unverified.Programs[counted]); !errors.As(err, &verifier) || !strings.HasPrefix(err.Error(), "load a BPF program: ") {
		t.Errorf("err = %v, want the verifier's", err)
	}
	if _, err := NewMap(&ebpf.MapSpec{Type: ebpf.Hash}); err == nil || !strings.HasPrefix(err.Error(), "make a BPF map: ") {
		t.Errorf("err = %v, want that the map has no size", err)
	}
}

func TestRefusalsHaveRemedies(t *testing.T) {
	other := errors.New("other")
	const (
		root = "operation not permitted (run as root, or with CAP_BPF and CAP_PERFMON)"
		old  = "(Linux 5.15 or newer is needed; --check shows what works)"
	)
	for _, tt := range []struct {
		err  error
		want string
	}{
		{unix.EPERM, root},
		{fmt.Errorf("map: %w", unix.EACCES), root},
		{btf.ErrNotFound, btf.ErrNotFound.Error() + " (the kernel has no BTF: it needs CONFIG_DEBUG_INFO_BTF; --check shows what works)"},
		{ebpf.ErrNotSupported, ebpf.ErrNotSupported.Error() + " " + old},
		{unix.ENOSYS, unix.ENOSYS.Error() + " " + old},
		{other, "other"},
	} {
		if got := explain(tt.err).Error(); got != tt.want {
			t.Errorf("explain(%v) = %q, want %q", tt.err, got, tt.want)
		}
	}
}

func TestTracepointRunsProgramUntilClose(t *testing.T) {
	o := loadCounting(t, ebpf.RawTracepoint)
	l, err := RawTracepoint("sys_enter", o.Count)
	if err != nil {
		t.Fatal(err)
	}
	const calls = 101
	for range calls {
		_ = unix.Getppid()
	}
	if got := o.hits(t); got < calls {
		t.Errorf("runs = %d, want %d or more", got, calls)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	waitForEnd(t, o)
	if !HasTracepoint("sys_enter") || HasTracepoint("no_such_event") {
		t.Error("HasTracepoint: want true for sys_enter and false for no_such_event")
	}
	if _, err := RawTracepoint("no_such_event", o.Count); err == nil || !strings.HasPrefix(err.Error(), "attach to tracepoint no_such_event: ") {
		t.Errorf("err = %v, want that there is no such tracepoint", err)
	}
	if _, err := Trace(o.Count); err == nil || !strings.HasPrefix(err.Error(), "attach ") {
		t.Errorf("err = %v, want that the program is for no function", err)
	}
}

// waitForEnd fails unless the program stops running: the kernel may end a link in the
// background.
func waitForEnd(t *testing.T, o *objects) {
	t.Helper()
	before := o.hits(t)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
		now := o.hits(t)
		if now == before {
			return
		}
		before = now
	}
	t.Error("the program still runs")
}

func TestSamplerRunsProgramUntilClose(t *testing.T) {
	o := loadCounting(t, ebpf.PerfEvent)
	s, err := Sample(o.Count, CPUClock, Sampling{Hz: 997})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.files) == 0 || s.Hz != SampleRate(997) {
		t.Errorf("%d events at %d Hz, want one for each CPU at %d", len(s.files)/2, s.Hz, SampleRate(997))
	}
	for deadline := time.Now().Add(10 * time.Second); o.hits(t) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the program has not run")
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	waitForEnd(t, o)
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	wrong := loadCounting(t, ebpf.RawTracepoint)
	if _, err := Sample(wrong.Count, CPUClock, Sampling{Hz: 99}); err == nil || !strings.Contains(err.Error(), "sample cpu on CPU ") {
		t.Errorf("err = %v, want that the program is not for perf events", err)
	}
}

// TestCountersAreThereOrMissed samples what CPUs count, and virtual machines may not have.
func TestCountersAreThereOrMissed(t *testing.T) {
	o := loadCounting(t, ebpf.PerfEvent)
	s, err := Sample(o.Count, Cycles, Sampling{Hz: 97})
	if err != nil {
		if want := "no such file or directory (this machine's CPUs do not count it, as in many virtual machines: sample CPU time)"; !strings.HasSuffix(err.Error(), want) {
			t.Errorf("err = %v, want %s", err, want)
		}
		return
	}
	for deadline := time.Now().Add(10 * time.Second); o.hits(t) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the program has not run")
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestSupportedKernelsHaveTheHelpers(t *testing.T) {
	nodetest.Root(t)
	old, err := nodetest.OlderThan(5, 15)
	if err != nil {
		t.Fatal(err)
	}
	if err := Supported(); (err != nil) != old {
		t.Errorf("Supported = %v, want an error just if it is older than 5.15: %t", err, old)
	}
	const none = asm.BuiltinFunc(1 << 20)
	if !lacks(none) {
		t.Error("the kernel has a helper that does not exist")
	}
	if lacks(asm.FnMapLookupElem) {
		t.Error("the kernel lacks a helper that all kernels have")
	}
	if release() == "" {
		t.Error("the kernel has no release")
	}
}

func TestRatesAreLimited(t *testing.T) {
	if got := SampleRate(1); got != 1 {
		t.Errorf("rate = %d, want 1", got)
	}
	limit, err := maxSampleRate()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := SampleRate(1<<30), min(limit, MaxHz); got != want {
		t.Errorf("rate = %d, want %d", got, want)
	}
}

// probed is the function that is probed. It has an effect, so that calls of it stay.
//
//go:noinline
func probed(n int) { sum += n }

var sum int

// probedOffset returns where probed begins in this test's file.
func probedOffset(t *testing.T) uint64 {
	t.Helper()
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	address := uint64(reflect.ValueOf(probed).Pointer())
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && address >= p.Vaddr && address < p.Vaddr+p.Filesz {
			return address - p.Vaddr + p.Off
		}
	}
	t.Fatalf("no segment has %#x", address)
	return 0
}

func TestProbesCountEveryCallUntilClose(t *testing.T) {
	o := loadCounting(t, ebpf.Kprobe)
	p := Probes{
		Program: o.Count, Path: "/proc/self/exe", Name: "probed", PID: os.Getpid(),
		Points: []Point{{Offset: probedOffset(t), Cookie: 7}},
	}
	links, err := AttachProbes(p)
	if err != nil {
		t.Fatal(err)
	}
	const calls = 103
	for i := range calls {
		probed(i)
	}
	if got := o.hits(t); got != calls {
		t.Errorf("runs = %d, want %d", got, calls)
	}
	closeAll(t, links)
	probed(0)
	if got := o.hits(t); got != calls {
		t.Errorf("runs after close = %d, want %d", got, calls)
	}
	p.PID = 1 << 22
	if links, err := AttachProbes(p); err == nil || !strings.HasPrefix(err.Error(), "probe probed") {
		closeAll(t, links)
		t.Errorf("err = %v, want that there is no such process", err)
	}
	p.Path = "/nonexistent"
	if links, err := AttachProbes(p); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "probe probed: ") {
		closeAll(t, links)
		t.Errorf("err = %v, want that there is no such file", err)
	}
}

func closeAll(t *testing.T, links []link.Link) {
	t.Helper()
	if err := CloseAll(links); err != nil {
		t.Error(err)
	}
}

func TestPIDNamespaceIsThisProcesss(t *testing.T) {
	got, err := PIDNamespace()
	if err != nil {
		t.Fatal(err)
	}
	var own unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &own); err != nil {
		t.Fatal(err)
	}
	if want := uint32(own.Ino); got != want && !(want == firstPIDNamespace && got == 0) {
		t.Errorf("namespace = %d, want %d", got, want)
	}
}

// TestSeccompFilterIsNoticed gives a thread, which ends with the test, a filter that allows
// everything.
func TestSeccompFilterIsNoticed(t *testing.T) {
	if filtered() {
		t.Skip("this process has a filter already")
	}
	noticed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocks: the thread is not used again
		allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
		program := unix.SockFprog{Len: 1, Filter: &allow}
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
		}
		if err == nil && !filtered() {
			err = errors.New("the filter is not noticed")
		}
		if err == nil && !strings.Contains(explain(unix.EPERM).Error(), "seccomp=unconfined") {
			err = errors.New("the remedy does not name the filter")
		}
		noticed <- err
	}()
	if err := <-noticed; err != nil {
		t.Error(err)
	}
}
