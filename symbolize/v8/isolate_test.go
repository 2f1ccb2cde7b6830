package v8

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
)

// threadPointer returns the thread pointer of the main thread of the process pid.
func threadPointer(t *testing.T, pid int) uint64 {
	t.Helper()
	runtime.LockOSThread() // ptrace is per thread
	defer runtime.UnlockOSThread()
	if err := unix.PtraceSeize(pid); err != nil {
		t.Fatalf("trace process %d: %v", pid, err)
	}
	if err := unix.PtraceInterrupt(pid); err != nil {
		t.Fatalf("stop process %d: %v", pid, err)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, unix.WALL, nil); err != nil {
		t.Fatalf("wait for process %d: %v", pid, err)
	}
	pointer, err := readThreadPointer(pid)
	if err := errors.Join(err, unix.PtraceDetach(pid)); err != nil {
		t.Fatalf("read registers of process %d: %v", pid, err)
	}
	return pointer
}

// isolateOf returns the address of the main thread's Isolate.
func isolateOf(t *testing.T, b *Binary, p *nodetest.Paused) uint64 {
	t.Helper()
	tls, err := b.TLSIsolate(p.Memory, 0)
	if err != nil || !tls.Known() {
		t.Fatalf("TLSIsolate() = %+v, %v", tls, err)
	}
	isolate, err := tls.Isolate(p.Memory, threadPointer(t, p.PID))
	if err != nil {
		t.Fatal(err)
	}
	return isolate
}

func TestBinaryTellsItsVersions(t *testing.T) {
	for _, r := range releases {
		t.Run(r.node, func(t *testing.T) {
			b := inspect(t, nodetest.Node(t, r.node))
			if got, want := b.NodeVersion, "v"+r.node; got != want {
				t.Errorf("NodeVersion = %q, want %q", got, want)
			}
			if got := b.Version.String(); got != r.v8 {
				t.Errorf("Version = %q, want %q", got, r.v8)
			}
			if len(b.Missing) != 0 {
				t.Errorf("Missing = %q", b.Missing)
			}
			if offset, size := b.Builtins(); offset == 0 || size < 1<<20 {
				t.Errorf("Builtins() = %#x, %#x", offset, size)
			}
			if got := b.FrameTypes[b.Layout.FrameConstruct]; got != "construct" {
				t.Errorf("label of construct frames = %q", got)
			}
		})
	}
}

func TestCollectionsAreCountedInTheIsolate(t *testing.T) {
	forEachRelease(t, func(t *testing.T, path string) {
		b := inspect(t, path)
		p := nodetest.Pause(t, path, "--expose-gc", "testdata/collect.js")
		h := heapAt(t, p.Memory, b)
		isolate := isolateOf(t, b, p)
		before, err := h.Uint32(Object{Address: isolate}, int(b.Layout.GCCount))
		if err != nil {
			t.Fatal(err)
		}
		for n := range uint32(3) {
			p.Continue(t)
			p.Wait(t)
			got, err := h.Uint32(Object{Address: isolate}, int(b.Layout.GCCount))
			if want := before + n + 1; got != want || err != nil {
				t.Errorf("collections = %d, %v, want %d", got, err, want)
			}
			state, err := h.Uint32(Object{Address: isolate}, int(b.Layout.GCState))
			if state != 0 || err != nil {
				t.Errorf("state between collections = %d, %v, want 0", state, err)
			}
			vm, err := h.Uint32(Object{Address: isolate}, int(b.Layout.VMState))
			if uint8(vm) == VMStateGC || err != nil {
				t.Errorf("VM state between collections = %d, %v", vm, err)
			}
		}
		seesCollection(t, b, p, isolate)
	})
}

// seesCollection watches the isolate while the program collects garbage, until it
// has seen both states.
func seesCollection(t *testing.T, b *Binary, p *nodetest.Paused, isolate uint64) {
	t.Helper()
	h := heapAt(t, p.Memory, b)
	read := func(offset uint32) uint32 {
		n, err := h.Uint32(Object{Address: isolate}, int(offset))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var moving, collecting bool
	for range 20 {
		before := read(b.Layout.GCCount)
		p.Continue(t)
		for over := false; !over; {
			state, vm := read(b.Layout.GCState), uint8(read(b.Layout.VMState))
			moving = moving || state == 1 || state == 2
			collecting = collecting || vm == VMStateGC
			over = vm != VMStateGC && read(b.Layout.GCCount) != before
		}
		p.Wait(t)
		if moving && collecting {
			return
		}
	}
	t.Errorf("saw the state of a collection: %t, the VM state: %t, want both", moving, collecting)
}

// An exit is a frame between JavaScript and C++.
type exit struct{ Label, Function string }

// exits follows the frame pointers from the newest exit frame.
func exits(t *testing.T, b *Binary, p *nodetest.Paused, isolate uint64) []exit {
	t.Helper()
	h := heapAt(t, p.Memory, b)
	fp, err := h.Word(isolate + uint64(b.Layout.CEntryFP))
	if err != nil || fp == 0 {
		t.Fatalf("c_entry_fp = %#x, %v", fp, err)
	}
	var found []exit
	for range 100 {
		marker, err := h.Word(fp + uint64(int64(b.Layout.FPContext)))
		if err != nil {
			break
		}
		switch kind := uint8(marker >> 1); {
		case marker&1 != 0 || kind == 0 || marker>>1 > maxFrameType:
		case kind == b.Layout.FrameBuiltinExit:
			found = append(found, exit{b.FrameTypes[kind], builtinExit(t, h, fp)})
		case kind == b.Layout.FrameAPICallbackExit:
			found = append(found, exit{b.FrameTypes[kind], apiExit(t, h, fp)})
		}
		if fp, err = h.Word(fp); err != nil || fp == 0 {
			break
		}
	}
	return found
}

func builtinExit(t *testing.T, h *Heap, fp uint64) string {
	t.Helper()
	fn, err := h.Word(fp + uint64(int64(h.layout.BuiltinExitFunction)))
	if err != nil {
		t.Fatal(err)
	}
	f, err := functionAt(h, fn)
	if err != nil {
		t.Error(err)
	}
	return f.Name
}

func apiExit(t *testing.T, h *Heap, fp uint64) string {
	t.Helper()
	tagged, err := h.Word(fp + uint64(int64(h.layout.APIExitFunction)))
	if err != nil {
		t.Fatal(err)
	}
	template, err := h.Object(Value(tagged))
	if err != nil || template.Map.Type != h.layout.FunctionTemplate {
		t.Fatalf("object of type %d, %v, want a template of type %d", template.Map.Type, err, h.layout.FunctionTemplate)
	}
	shared, err := h.Field(template, int(h.layout.TemplateShared))
	if err != nil {
		t.Fatal(err)
	}
	f, err := h.FunctionOf(shared)
	if err != nil {
		t.Error(err)
	}
	return f.Name
}

func TestFunctionsThatCxxImplementsAreKnownByTheirExitFrames(t *testing.T) {
	forEachRelease(t, func(t *testing.T, path string) {
		b := inspect(t, path)
		p := nodetest.Pause(t, path, "--expose-gc", "testdata/collect.js")
		got := exits(t, b, p, isolateOf(t, b, p))
		if len(got) < 2 {
			t.Fatalf("exit frames = %v, want two", got)
		}
		read := exit{"builtin exit", "read"}
		if b.Layout.FrameAPICallbackExit != 0 {
			read.Label = "api callback exit"
		}
		if diff := cmp.Diff([]exit{read, {"builtin exit", "parse"}}, got[:2]); diff != "" {
			t.Errorf("exit frames differ (-want +got):\n%s", diff)
		}
	})
}

func TestCodeIsFoundFromTheFunction(t *testing.T) {
	forEachRelease(t, func(t *testing.T, path string) {
		b := inspect(t, path)
		p := nodetest.Pause(t, path, "--allow-natives-syntax", "--expose-gc", "testdata/functions.js")
		h := heapAt(t, p.Memory, b)
		base, err := b.DispatchBase(p.Memory, 0)
		if err != nil {
			t.Fatal(err)
		}
		if b.Layout.DispatchTable != 0 {
			if base, err = ReadWord(p.Memory, isolateOf(t, b, p)+uint64(b.Layout.DispatchTable)); err != nil {
				t.Fatal(err)
			}
		}
		type truth struct{ Name string }
		nodetest.Described(t, p, func(want truth, addr uint64) {
			fn, err := h.Object(Ref(addr))
			if err != nil {
				t.Fatal(err)
			}
			code, err := h.Field(fn, int(b.Layout.FunctionCode))
			if b.Layout.DispatchHandle != 0 {
				var entry uint64
				entry, err = ReadWord(p.Memory, base+uint64(uint32(code)>>8)*16+8)
				code = Ref(entry >> 16)
			}
			if err != nil {
				t.Fatal(err)
			}
			o, err := h.Object(code)
			if err != nil || o.Map.Type != b.Layout.Code {
				t.Errorf("code of %s has type %d, %v, want %d", want.Name, o.Map.Type, err, b.Layout.Code)
			}
		})
	})
}

// TestStrippedProcessTellsTheSame reads from a running V8 where its builtins and
// the isolate are.
func TestStrippedProcessTellsTheSame(t *testing.T) {
	versions := nodetest.Versions
	if os.Getenv("USTACK_MATRIX") != "1" {
		versions = []string{"20.20.2", "24.21.0"}
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			whole, path := inspect(t, nodetest.Node(t, version)), nodetest.StrippedNode(t, version)
			b := inspect(t, path)
			p := nodetest.Pause(t, path, "--expose-gc", "testdata/collect.js")
			if err := b.CheckBuiltins(p.Memory, 0); err != nil || b.guessed {
				t.Errorf("CheckBuiltins() = %v, guessed = %v, want it confirmed", err, b.guessed)
			}
			address, size := builtinsOf(t, nodetest.Node(t, version), whole)
			if gotAddress, gotSize := builtinsOf(t, path, b); gotAddress != address || gotSize != size {
				t.Errorf("builtins = %#x, %d bytes, want %#x, %d bytes", gotAddress, gotSize, address, size)
			}
			if got, want := b.Layout.Builder, whole.Layout.Builder; got != want {
				t.Errorf("the builtin that builds frames is at %#x of them, want %#x", got, want)
			}
			got, err := b.TLSIsolate(p.Memory, 0)
			if err != nil {
				t.Fatal(err)
			}
			if want, _ := whole.TLSIsolate(p.Memory, 0); got != want {
				t.Errorf("isolates are at %+v, want %+v", got, want)
			}
			if whole.dispatch.Group == 0 {
				return
			}
			table, err := ReadWord(p.Memory, isolateOf(t, b, p)+uint64(b.Layout.DispatchTable))
			if want, _ := whole.DispatchBase(p.Memory, 0); err != nil || table != want {
				t.Errorf("dispatch table = %#x, %v, want %#x", table, err, want)
			}
		})
	}
}
