package libuv

import (
	"debug/elf"
	enc "encoding/binary"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/arch/x86/x86asm"
)

// start is the nominal address of these tests' code, and table that of a jump table
// that leads to the code's sixteenth byte.
const (
	start = 0x10000
	table = 0x20000
)

// assemble returns the machine code of assembly text.
func assemble(t *testing.T, text string) []byte {
	t.Helper()
	object := filepath.Join(t.TempDir(), "code.o")
	cmd := exec.CommandContext(t.Context(), "gcc", "-c", "-x", "assembler", "-o", object, "-")
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

// traced follows code that contains its own constants.
func traced(code []byte) effects {
	return traceCode(code, start, func(at uint64) (uint64, bool) {
		if from := at - start; from < uint64(len(code)) && len(code[from:]) >= 8 {
			return enc.LittleEndian.Uint64(code[from:]), true
		}
		return start + 16, at == table
	})
}

func TestCallsArgumentsAreKnown(t *testing.T) {
	five, first, none := value{number, 5}, value{of: argument}, value{}
	for _, test := range []struct {
		name, code string
		want       []value // of the first three arguments of the last call
	}{
		{"own", "call 0", []value{first, {of: argument + 1}, {of: argument + 2}}},
		{"immediate", "mov $5, %edi; mov $5, %rsi; movabs $5, %rdx; call 0", []value{five, five, five}},
		{"negative", "mov $-1, %edi; mov $-1, %rsi; call 0", []value{{number, 1<<32 - 1}, {number, 1<<64 - 1}, {of: argument + 2}}},
		{"copied", "mov %rdi, %rbx; xor %edi, %edi; mov %rbx, %rsi; call 0", []value{{number, 0}, first, {of: argument + 2}}},
		{"address", "lea -7(%rip), %rdi; lea 8(%rsi), %rsi; lea (%rdx,%rdx), %rdx; call 0", []value{{number, start}, {argument + 1, 8}, none}},
		{"added", "add $8, %rdi; sub $8, %rsi; add %rdi, %rdx; call 0", []value{{argument, 8}, none, none}},
		{"part", "mov %edi, %edi; mov $5, %si; mov $5, %dl; call 0", []value{none, none, none}},
		{"kept by a call", "mov %rdi, %rbx; call 0; mov %rbx, %rdi; call 0", []value{first, none, none}},
		{"in a vector", "movq %rdi, %xmm0; call 0; movq %xmm0, %rdi; call 0", []value{none, none, none}},
		{"read", "mov (%rdi), %rdi; mov %fs:0, %rsi; pop %rdx; call 0", []value{none, none, none}},
		{"unknown instruction", "cpuid; call 0", []value{none, none, none}},
		{"jump out", "mov $5, %edi; jmp 0", []value{five, {of: argument + 1}, {of: argument + 2}}},
		{"one way of two", "test %rsi, %rsi; je 1f; mov $5, %edi; 1: call 0", []value{none, {of: argument + 1}, {of: argument + 2}}},
		{"alike on two ways", "mov $5, %edi; test %rsi, %rsi; je 1f; xor %esi, %esi; 1: call 0", []value{five, none, {of: argument + 2}}},
		{"loop", "1: call 0; mov $5, %edi; jmp 1b", []value{none, none, none}},
		{"loop that keeps", "mov %rdi, %rbx; 1: mov %rbx, %rdi; call 0; jmp 1b", []value{first, none, none}},
		{"after a jump", "mov $5, %edi; jmp 1f; .p2align 4; 1: call 0", []value{five, {of: argument + 1}, {of: argument + 2}}},
		{"after what nothing leads to", "mov $5, %edi; jmp 1f; mov $5, %edi; 1: call 0", []value{five, none, none}},
		{"by a table", "mov $5, %edi; jmp *0x20000(,%rax,8); .p2align 4; call 0", []value{five, {of: argument + 1}, {of: argument + 2}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls := traced(assemble(t, test.code)).calls
			if len(calls) == 0 {
				t.Fatal("calls = none, want one")
			}
			got := calls[len(calls)-1].arguments[:3]
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(value{})); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStoresAreKnown(t *testing.T) {
	for name, code := range map[string]string{
		"one by one":         "movq $5, 88(%rsi); mov $6, %eax; mov %rax, 96(%rsi)",
		"copied base":        "lea 80(%rsi), %rbx; movq $5, 8(%rbx); movq $6, 16(%rbx)",
		"added base":         "mov %rsi, %rbx; add $88, %rbx; movl $4, (%rbx); movq $5, (%rbx); movq $6, 8(%rbx)",
		"halves":             "mov $5, %eax; movq %rax, %xmm0; movhps 1f(%rip), %xmm0; movups %xmm0, 88(%rsi)",
		"unpacked":           "mov $5, %eax; movq %rax, %xmm0; movq 1f(%rip), %xmm1; punpcklqdq %xmm1, %xmm0; movups %xmm0, 88(%rsi)",
		"halves, one by one": "mov $5, %eax; movq %rax, %xmm0; movhps 1f(%rip), %xmm0; movq %xmm0, 88(%rsi); movhps %xmm0, 96(%rsi)",
	} {
		t.Run(name, func(t *testing.T) {
			got := traced(assemble(t, code+"; ret; 1: .quad 6, 0")).stores
			want := []store{{value{argument + 1, 88}, value{number, 5}}, {value{argument + 1, 96}, value{number, 6}}}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(store{}, value{})); diff != "" {
				t.Errorf("stores (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatCannotBeFollowedIsNot(t *testing.T) {
	for name, code := range map[string]string{
		"jump by a register":       "call 0; jmp *%rax",
		"jump by an unknown table": "call 0; jmp *0x30000(,%rax,8)",
		"jump by a moved table":    "call 0; jmp *0x20000(%rbx,%rax,8)",
	} {
		if got := traced(assemble(t, code)).calls; got != nil {
			t.Errorf("%s: calls = %v, want none", name, got)
		}
	}
}

// FuzzTrace traces whatever a file may hold.
func FuzzTrace(f *testing.F) {
	f.Add([]byte{0xe9, 0xfb, 0xff, 0xff, 0xff})             // jmp to itself
	f.Add([]byte{0x74, 0xfe, 0xff, 0x24, 0xc5, 0, 0, 2, 0}) // je to itself, a table
	f.Add([]byte{0xff, 0x24, 0x25, 0, 0, 1, 0})             // jmp by a table, in code that is shorter than an address
	f.Fuzz(func(t *testing.T, code []byte) {
		if len(code) <= maxTraced {
			traced(code)
			FindCall(code)
			Entry(code, 4)
		}
	})
}

func TestCallOfAJobIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		code string
		want Call
		ok   bool
	}{
		"as usual":                {"call 0; lea -24(%rbx), %rdi; call *-24(%rbx); mov -8(%rbx), %rax; call 0", Call{0, 16, number64(x86asm.RBX)}, true},
		"other register":          {"endbr64; call 0; call *-24(%r14); call 0", Call{4, 13, number64(x86asm.R14)}, true},
		"without a frame pointer": {"push %rbp; call 0; call *-24(%rbp); call 0", Call{1, 9, number64(x86asm.RBP)}, true},
		"local variable":          {"push %rbp; mov %rsp, %rbp; call 0; call *-24(%rbp); call 0", Call{}, false},
		"local variable, by lea":  {"lea 8(%rsp), %rbp; call 0; call *-24(%rbp); call 0", Call{}, false},
		"with a frame pointer":    {"push %rbp; mov %rsp, %rbp; call 0; call *-24(%rbx); call 0", Call{4, 12, number64(x86asm.RBX)}, true},
		"without a linkage table": {"call *9(%rip); call *-24(%r12); call *9(%rip)", Call{0, 11, number64(x86asm.R12)}, true},
		"other field":             {"call 0; call *-16(%rbx); call 0", Call{}, false},
		"register not kept":       {"call 0; call *-24(%rdi); call 0", Call{}, false},
		"nothing after":           {"call 0; call *-24(%rbx); ret", Call{}, false},
		"nothing before":          {"call *-24(%rbx); call 0", Call{}, false},
		"jump between":            {"call 0; call *-24(%rbx); je 1f; call 0; 1: ret", Call{}, false},
		"jump into":               {"je 1f; call 0; 1: call *-24(%rbx); call 0", Call{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := FindCall(assemble(t, test.code))
			if ok != test.ok || ok && got != test.want {
				t.Errorf("call = %+v, %v, want %+v, %v", got, ok, test.want, test.ok)
			}
		})
	}
}

func TestProbesAreWhereTheArgumentsStillAre(t *testing.T) {
	for name, test := range map[string]struct {
		code      string
		arguments int
		want      int
	}{
		"push first":           {"push %rbp; mov %rsp, %rbp", 4, 0},
		"after a test":         {"test %rdx, %rdx; je 1f; 1: ret", 4, 3},
		"after a landing":      {"endbr64; push %rbp", 4, 4},
		"scratch":              {"mov %rdi, %rax; push %rbp", 4, 3},
		"argument not used":    {"mov %rdi, %rdx; push %rbp", 2, 3},
		"argument overwritten": {"mov %rax, %rdx; push %rbp", 4, 0},
		"nothing to do with":   {"sub $8, %rsp; push %rbp", 4, 0},
	} {
		if got := Entry(assemble(t, test.code), test.arguments); got != test.want {
			t.Errorf("%s: entry = %d, want %d", name, got, test.want)
		}
	}
}
