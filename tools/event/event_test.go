package event

import (
	"bufio"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/bpf"
	"ustack/symbolize/elfsym"
)

func TestFunctions(t *testing.T) {
	for text, want := range map[string]Function{
		"libc.so.6:malloc":       {Object: "libc.so.6", Symbol: "malloc"},
		"malloc":                 {Symbol: "malloc"},
		"node::fs::Open":         {Symbol: "node::fs::Open"},
		"node:node::fs::Open":    {Object: "node", Symbol: "node::fs::Open"},
		"/usr/bin/node:uv_chdir": {Object: "/usr/bin/node", Symbol: "uv_chdir"},
		"node:":                  {Object: "node"},
	} {
		if got := ParseFunction(text); got != want {
			t.Errorf("ParseFunction(%q) = %+v, want %+v", text, got, want)
		}
	}
}

func TestEventsHaveOneKindEach(t *testing.T) {
	for text, is := range map[string]func(Event) bool{
		"cpu":                 func(e Event) bool { return e.Timer != nil && e.Timer.Name == "cpu" },
		"cycles":              func(e Event) bool { return e.Timer != nil && e.Timer.Name == "cycles" },
		"page-faults":         func(e Event) bool { return e.Perf != nil },
		"LLC-load-misses":     func(e Event) bool { return e.Hardware != nil },
		"syscall:openat,open": func(e Event) bool { return len(e.Syscalls) == 2 },
		"syscall:*":           func(e Event) bool { return len(e.Syscalls) > 300 },
		"func:node:uv_read":   func(e Event) bool { return e.Function != nil && !e.Function.Return },
		"func:malloc:return":  func(e Event) bool { return e.Function.Symbol == "malloc" && e.Function.Return },
		"usdt:libstdc++.so.6:libstdcxx:throw": func(e Event) bool {
			return *e.USDT == USDT{"libstdc++.so.6", "libstdcxx", "throw"}
		},
	} {
		e, err := Parse(text)
		if err != nil || !is(e) || e.Name != text {
			t.Errorf("Parse(%q) = %+v, %v", text, e, err)
		}
	}
}

func TestEventsThatAreNoneHaveHints(t *testing.T) {
	for text, want := range map[string]string{
		"page-fault":      "no such event (did you mean page-faults?)",
		"openat":          "the system call is syscall:openat",
		"nonsense":        "no such event (there are cpu, cycles, ",
		"syscal:openat":   "did you mean syscall?",
		"syscall:opnat":   `no system call "opnat" (did you mean openat?)`,
		"syscall:":        `no system call ""`,
		"func:":           "no function (write func:OBJECT:SYMBOL)",
		"usdt:a:b":        "not a static probe",
		"tracepoint:a b:": "not a tracepoint",
	} {
		if e, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %+v, %v, want an error with %q", text, e, err, want)
		}
	}
}

func TestWeightsFitTheirEvents(t *testing.T) {
	for _, tt := range []struct{ event, weight, want string }{
		{"syscall:read,write", "bytes", ""},
		{"syscall:read,mmap", "bytes", "no single number of bytes"},
		{"syscall:close", "bytes", "transfers no bytes"},
		{"func:libc.so.6:calloc", "bytes", ""},
		{"func:uv_read", "bytes", "is not known"},
		{"func:malloc", "duration", "takes no time"},
		{"func:malloc:return", "ret", ""},
		{"func:malloc", "arg 0", ""},
		{"func:malloc", "arg0", ""},
		{"cpu", "duration", "takes no time"},
		{"page-faults", "arg 1", "has no arguments"},
		{"page-faults", "count", ""},
	} {
		e, err := Parse(tt.event)
		if err != nil {
			t.Fatal(err)
		}
		w, err := ParseWeight(tt.weight)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Weigher(e)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s of %s: %v, want %q", tt.weight, tt.event, err, tt.want)
		}
	}
	for _, text := range []string{"", "size", "arg 6", "arg -1", "arg"} {
		if w, err := ParseWeight(text); err == nil {
			t.Errorf("ParseWeight(%q) = %+v, want an error", text, w)
		}
	}
}

func TestProductsAreOfAllocators(t *testing.T) {
	e, err := Parse("func:calloc")
	if err != nil {
		t.Fatal(err)
	}
	w, err := ParseWeight("bytes")
	if err != nil {
		t.Fatal(err)
	}
	got, err := w.Weigher(e)
	want := bpf.TraceWeigher{Weight: uint8(bpf.TraceWeightWEIGHT_PRODUCT), Factor: 1}
	if got != want || err != nil || !NeedsBegin(got) {
		t.Errorf("weigher = %+v, %v, want %+v", got, err, want)
	}
}

// TestArgumentsOfStaticProbes reads operands as compilers write them.
func TestArgumentsOfStaticProbes(t *testing.T) {
	parse := machines["amd64"].arguments
	const word = 8
	register := func(number, size int, signed uint8) bpf.TracePlace {
		return bpf.TracePlace{Kind: uint8(bpf.TracePlaceKindPLACE_REGISTER), Base: uint16(number * word), Size: uint8(size), IsSigned: signed}
	}
	for text, want := range map[string]bpf.TracePlace{
		"8@%rdi":   register(14, 8, 0),
		"-4@%eax":  register(10, 4, 1),
		"4@%r8d":   register(9, 4, 0),
		"1@%sil":   register(13, 1, 0),
		"%rbx":     register(5, 8, 0),
		"-4@$-17":  {Kind: uint8(bpf.TracePlaceKindPLACE_CONSTANT), Offset: -17, Size: 4, IsSigned: 1},
		"8@(%rax)": {Kind: uint8(bpf.TracePlaceKindPLACE_MEMORY), Base: 10 * word, Size: 8},
		"-4@-20(%rbp)": {
			Kind: uint8(bpf.TracePlaceKindPLACE_MEMORY), Base: 4 * word, Offset: -20, Size: 4, IsSigned: 1,
		},
		"8@16(%rax,%rdx,4)": {
			Kind: uint8(bpf.TracePlaceKindPLACE_MEMORY), Base: 10 * word, HasIndex: 1, Index: 12 * word, Scale: 4, Offset: 16, Size: 8,
		},
		"1@%ah":           {Kind: uint8(bpf.TracePlaceKindPLACE_REGISTER), Base: 10*word + 1, Size: 1},
		"8@name+8(%rip)":  {Size: 8},
		"8@%xmm0":         {Size: 8},
		"8@8(%rax,%xmm0)": {Size: 8, HasIndex: 1, Scale: 1},
	} {
		if got := parse(text).Arguments[0]; got != want {
			t.Errorf("arguments(%q) = %+v, want %+v", text, got, want)
		}
	}
	all := parse("8@%rdi 8@%rsi 8@%rdx 8@%rcx 8@%r8 8@%r9 8@%rax")
	for i, place := range all.Arguments {
		if place.Kind != uint8(bpf.TracePlaceKindPLACE_REGISTER) {
			t.Errorf("argument %d = %+v, want a register", i, place)
		}
	}
}

// TestArgumentsOfStaticProbesOnARM64 reads operands as compilers write them there.
func TestArgumentsOfStaticProbesOnARM64(t *testing.T) {
	const word = 8
	got := machines["arm64"].arguments("8@x0 -4@w3 8@[sp, 24] -8@[x0] 8@[x1, x2, lsl 3] -4@-17 8@x31").Arguments
	want := [...]bpf.TracePlace{
		{Kind: uint8(bpf.TracePlaceKindPLACE_REGISTER), Size: 8},
		{Kind: uint8(bpf.TracePlaceKindPLACE_REGISTER), Base: 3 * word, Size: 4, IsSigned: 1},
		{Kind: uint8(bpf.TracePlaceKindPLACE_MEMORY), Base: 31 * word, Offset: 24, Size: 8},
		{Kind: uint8(bpf.TracePlaceKindPLACE_MEMORY), Size: 8, IsSigned: 1},
		{Kind: uint8(bpf.TracePlaceKindPLACE_MEMORY), Base: word, HasIndex: 1, Index: 2 * word, Scale: 8, Size: 8},
		{Kind: uint8(bpf.TracePlaceKindPLACE_CONSTANT), Offset: -17, Size: 4, IsSigned: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	if got := machines["arm64"].arguments("8@x31").Arguments[0]; got.Kind != uint8(bpf.TracePlaceKindPLACE_NONE) {
		t.Errorf("x31 = %+v, want no place", got)
	}
}

// FuzzArguments reads operands of any text, which a file of the process has.
func FuzzArguments(f *testing.F) {
	for _, text := range []string{
		"8@%rdi -4@$-17 -4@-20(%rbp) 8@16(%rax,%rdx,4) 1@%ah 8@name+8(%rip) 8@%xmm0", "8@x0 -4@w3 8@[sp, 24] 8@[x1, x2, lsl 3] 8@x31",
		"8@$99999999999999999999", "8@x99999999999999999999", "8@-(%rax)", "[ ] @ %", "8@%r 8@%e 8@%rdwb",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, m := range machines {
			for i, p := range m.arguments(text).Arguments {
				const most = 34 * registerBytes // of struct pt_regs
				if p.Base > most || p.Index > most {
					t.Errorf("%s: argument %d of %q = %+v, want a register", name, i, text, p)
				}
				if p.Kind != uint8(bpf.TracePlaceKindPLACE_NONE) && p.Size != 1 && p.Size != 2 && p.Size != 4 && p.Size != 8 {
					t.Errorf("%s: argument %d of %q = %+v, want a size that is read", name, i, text, p)
				}
			}
		}
	})
}

func TestStaticProbesMatchPatterns(t *testing.T) {
	for text, want := range map[string]bool{
		"bunyan:log-debug": true, "bunyan*:log-*": true, ":*:*": true, "a.so:bunyan:log-d????": true,
		"bunyan:log": false, "other:log-debug": false,
	} {
		u, ok := ParseUSDT(text)
		if got := u.matches(elfsym.USDT{Provider: "bunyan", Name: "log-debug"}); !ok || got != want {
			t.Errorf("%s matches bunyan:log-debug = %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "a", "a:", ":b", "a:b:c:d", "a:[:b"} {
		if u, ok := ParseUSDT(text); ok {
			t.Errorf("ParseUSDT(%q) = %+v, want none", text, u)
		}
	}
}

func TestFieldsOfTracepoints(t *testing.T) {
	const format = `name: sched_switch
ID: 316
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char prev_comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t prev_pid;	offset:24;	size:4;	signed:1;
	field:long prev_state;	offset:32;	size:8;	signed:1;

print fmt: "prev_comm=%s", REC->prev_comm
`
	var tp Tracepoint
	if err := tp.readFields(bufio.NewScanner(strings.NewReader(format))); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"prev_comm", "prev_pid", "prev_state"}, tp.Fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	want := []bpf.TraceField{{Offset: 8, Size: 8}, {Offset: 24, Size: 4, IsSigned: 1}, {Offset: 32, Size: 8, IsSigned: 1}}
	record := tp.Record()
	for i, w := range want {
		if record[i] != w {
			t.Errorf("field %d = %+v, want %+v", i, record[i], w)
		}
	}
	if record[3].Size != 0 {
		t.Errorf("field 3 = %+v, want none", record[3])
	}
}

func TestMangledNames(t *testing.T) {
	for name, want := range map[string][]string{
		"node::fs::Open": {"_ZN4node2fs4Open", "_ZNK4node2fs4Open", "_ZN4node2fsL4Open"},
		"malloc":         nil,
		"a::b(int)":      nil,
	} {
		if diff := cmp.Diff(want, mangled(name)); diff != "" {
			t.Errorf("mangled(%q) (-want +got):\n%s", name, diff)
		}
	}
}

func TestPredicatesFitTheirEvents(t *testing.T) {
	p := Predicate{Path: "/tmp/*"}
	if err := p.Check(Kinds{Syscalls: true}); err != nil {
		t.Errorf("err = %v, want none", err)
	}
	if err := p.Check(Kinds{Arguments: true}); err == nil {
		t.Error("a path is accepted without system calls")
	}
	long := Predicate{Path: strings.Repeat("x", maxPattern+1)}
	if err := long.Check(Kinds{Syscalls: true}); err == nil {
		t.Error("a pattern that is too long is accepted")
	}
}
