package libuv

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// assembleARM returns the machine code of assembly text for arm64.
func assembleARM(t *testing.T, text string) []byte {
	t.Helper()
	object := filepath.Join(t.TempDir(), "code.o")
	cmd := exec.CommandContext(t.Context(), "clang-14", "--target=aarch64-linux-gnu", "-c", "-x", "assembler", "-o", object, "-")
	cmd.Stdin = strings.NewReader(text + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("assemble: %v\n%s", err, out)
	}
	file, err := elf.Open(object)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	code, err := file.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// tracedARM follows code, with five in the word at table.
func tracedARM(code []byte) effects {
	return traceARM(code, start, func(at uint64) (uint64, bool) { return 5, at == table })
}

func TestLinkedCallsArgumentsAreKnown(t *testing.T) {
	five, first, second, third, none := value{number, 5}, value{of: argument}, value{of: argument + 1}, value{of: argument + 2}, value{}
	for _, test := range []struct {
		name, code string
		want       []value // of the first three arguments of the last call
	}{
		{"own", "bl .+64", []value{first, second, third}},
		{"immediate", "mov w0, #5; mov x1, #5; movz x2, #5; bl .+64", []value{five, five, five}},
		{"negative", "mov w0, #-1; mov x1, #-1; bl .+64", []value{{number, 1<<32 - 1}, {number, 1<<64 - 1}, third}},
		{"copied", "mov x19, x0; mov x0, xzr; mov x1, x19; bl .+64", []value{{number, 0}, first, third}},
		{"address", "adr x0, .; add x1, x1, #8; add x2, x2, x2; bl .+64", []value{{number, start}, {argument + 1, 8}, none}},
		{"part", "mov w0, w0; add w1, w1, #8; sxtw x2, w2; bl .+64", []value{none, none, none}},
		{"kept by a call", "mov x19, x0; bl .+64; mov x0, x19; bl .+64", []value{first, none, none}},
		{"read", "ldr x0, [x0]; mrs x1, tpidr_el0; ldp x2, x3, [sp], #16; bl .+64", []value{none, none, none}},
		{"read of what does not change", "mov x0, #0x20000; ldr x0, [x0]; mov x1, #0x20000; ldr x1, [x1, #8]; bl .+64", []value{five, none, third}},
		{"jump out", "mov x0, #5; b .+64", []value{five, second, third}},
		{"jump out by a table", "mov x0, #5; mov x16, #0x20000; ldr x16, [x16]; br x16", []value{five, second, third}},
		{"both ways alike", "cbz x0, 1f; mov x1, #5; b 2f; 1: mov x1, #5; 2: bl .+64", []value{first, five, third}},
		{"both ways", "cbz x0, 1f; mov x1, #5; b 2f; 1: mov x1, #6; 2: bl .+64", []value{first, none, third}},
		{"loop", "mov x1, #5; 1: mov x2, x1; add x1, x1, #1; tbz w0, #3, 1b; bl .+64", []value{first, none, none}},
		{"behind a return", "ret; bl .+64", []value{none, none, none}},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls := tracedARM(assembleARM(t, test.code)).calls
			if len(calls) == 0 {
				t.Fatal("calls = none, want some")
			}
			last := calls[len(calls)-1]
			for i, want := range test.want {
				if last.arguments[i] != want {
					t.Errorf("argument %d = %+v, want %+v", i, last.arguments[i], want)
				}
			}
			if last.leaves != strings.HasPrefix(test.name, "jump out") {
				t.Errorf("leaves = %t", last.leaves)
			}
		})
	}
}

func TestUnknownJumpLeadsNowhere(t *testing.T) {
	if got := tracedARM(assembleARM(t, "bl .+64; br x1")); len(got.calls) > 0 {
		t.Errorf("calls = %+v, want none in a function with a jump to anywhere", got.calls)
	}
}

func TestStoresOfLinkedCodeAreKnown(t *testing.T) {
	got := tracedARM(assembleARM(t, "mov x3, #5; str x3, [x1, #96]; stp x0, x3, [x1, #80]; str w3, [x1]")).stores
	want := []store{
		{value{argument + 1, 96}, value{number, 5}},
		{value{argument + 1, 80}, value{of: argument}},
		{value{argument + 1, 88}, value{number, 5}},
	}
	if !cmp.Equal(got, want, cmp.AllowUnexported(store{}, value{})) {
		t.Errorf("stores = %+v, want %+v", got, want)
	}
}
