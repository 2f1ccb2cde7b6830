package event

import (
	"runtime"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestKernelFunctionsAreThoseOfTheCalls(t *testing.T) {
	prefix := map[string]string{"amd64": "__x64_sys_", "arm64": "__arm64_sys_"}[runtime.GOARCH]
	for _, test := range []struct {
		name   string
		calls  []string
		errnos []unix.Errno
		want   []string
	}{
		{"one", []string{"close"}, nil, []string{"close"}},
		{"an error", []string{"close"}, []unix.Errno{unix.EBADF}, []string{"close"}},
		{"each once", []string{"close", "openat", "close"}, nil, []string{"close", "openat"}},
		{"of another name", []string{"fstat", "umount2"}, nil, []string{"newfstat", "umount"}},
		{"one that returns twice", []string{"close", "clone"}, nil, nil},
		{"a filter's error", []string{"close"}, []unix.Errno{unix.EBADF, unix.EPERM}, nil},
		{"too many", Syscalls()[:maxFunctions+1], nil, nil},
		{"none", nil, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var want []string
			for _, name := range test.want {
				want = append(want, prefix+name)
			}
			if diff := cmp.Diff(want, KernelFunctions(test.calls, test.errnos)); diff != "" {
				t.Errorf("functions (-want +got):\n%s", diff)
			}
		})
	}
}

// programs returns a collection with the programs that see system calls.
func programs() *ebpf.CollectionSpec {
	spec := &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{}}
	for _, name := range []string{onSystemCall, onSystemCallEnd} {
		spec.Programs[name] = &ebpf.ProgramSpec{Name: name, Type: ebpf.Tracing, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 7), asm.Return()}}
	}
	return spec
}

func TestProgramsRunInEachFunction(t *testing.T) {
	spec, needed := programs(), map[string]bool{onSystemCall: false, onSystemCallEnd: true}
	RunInFunctions(spec, []string{"f", "g"}, needed)
	if needed[onSystemCallEnd] {
		t.Error("the program at the tracepoint is still needed")
	}
	var at []string
	for _, p := range spec.Programs {
		if p.AttachTo != "" {
			at = append(at, p.AttachTo)
			if p.AttachType != ebpf.AttachTraceFExit {
				t.Errorf("program at %s is attached as %v, want at its end", p.AttachTo, p.AttachType)
			}
		}
	}
	slices.Sort(at)
	if diff := cmp.Diff([]string{"f", "g"}, at); diff != "" {
		t.Errorf("functions (-want +got):\n%s", diff)
	}
}

func TestProgramsThatAreNotNeededAreEmpty(t *testing.T) {
	spec := programs()
	Prune(spec, map[string]bool{onSystemCall: false, onSystemCallEnd: true})
	if got := spec.Programs[onSystemCall].Instructions[0].Constant; got != 0 {
		t.Errorf("the first program returns %d, want 0", got)
	}
	if got := spec.Programs[onSystemCallEnd].Instructions[0].Constant; got != 7 {
		t.Errorf("the second program returns %d, want 7", got)
	}
}
