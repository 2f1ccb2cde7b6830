package bpf

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// What older kernels allow, as of Linux 6.1 (kernel/bpf/verifier.c): the frames of a
// program and of the functions it calls, each rounded up.
const (
	maxStack  = 512
	frameUnit = 32
)

// TestStacksFitOlderKernels adds up the frames on each call path of the programs. Newer
// kernels allow more, so they would load programs that older ones reject.
func TestStacksFitOlderKernels(t *testing.T) {
	for name, load := range map[string]func() (*ebpf.CollectionSpec, error){
		"jsprof": LoadJsprof, "sample": LoadSample, "logsnoop": LoadLogsnoop, "offcpu": LoadOffcpu, "addonlat": LoadAddonlat, "stopon": LoadStopon, "alloc": LoadAlloc,
		"nodesnoop": LoadNodesnoop, "syscalls": LoadSyscalls, "tcp": LoadTcp,
	} {
		spec, err := load()
		if err != nil {
			t.Fatal(err)
		}
		for program, p := range spec.Programs {
			f := framesOf(p.Instructions)
			if _, ok := f.sizes[program]; !ok {
				t.Errorf("%s: %s has no frame among %v", name, program, f.sizes)
			}
			if depth := f.depth(program); depth > maxStack {
				t.Errorf("%s: the frames of %s and the functions it calls take %d bytes, want %d or less", name, program, depth, maxStack)
			}
		}
	}
}

// frames are the functions of a program.
type frames struct {
	sizes map[string]int             // of their frames, in bytes
	calls map[string]map[string]bool // by caller
}

func framesOf(instructions asm.Instructions) frames {
	f := frames{map[string]int{}, map[string]map[string]bool{}}
	function := ""
	var last asm.Instruction
	for _, i := range instructions {
		if s := i.Symbol(); s != "" {
			function = s
			f.sizes[function], f.calls[function] = 0, map[string]bool{}
		}
		if i.IsFunctionCall() {
			f.calls[function][i.Reference()] = true
		}
		f.sizes[function] = max(f.sizes[function], -offset(last, i))
		last = i
	}
	return f
}

// offset returns where an instruction uses the frame, from its end; 0 if it does not.
func offset(last, i asm.Instruction) int {
	takesAddress := last.OpCode == asm.Mov.Op(asm.RegSource) && last.Src == asm.RFP
	switch class := i.OpCode.Class(); {
	case class == asm.LdXClass && i.Src == asm.RFP, class.IsStore() && i.Dst == asm.RFP:
		return int(i.Offset)
	case takesAddress && i.OpCode == asm.Add.Op(asm.ImmSource) && i.Dst == last.Dst:
		return int(i.Constant)
	}
	return 0
}

// depth returns the size of the stack from a function on.
func (f frames) depth(function string) int {
	size := max(f.sizes[function], 1)
	deepest := 0
	for called := range f.calls[function] {
		deepest = max(deepest, f.depth(called))
	}
	return (size+frameUnit-1)/frameUnit*frameUnit + deepest
}
