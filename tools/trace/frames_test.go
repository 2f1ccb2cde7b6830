package trace

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/symbolize/unwind"
)

func TestCodeOfRegularExpressionsIsNamed(t *testing.T) {
	regexp := symbolize.Frame{Kind: symbolize.RegExp, Name: "(regexp)"}
	execute := symbolize.Frame{Name: executesRegExp, Module: "node"}
	for name, test := range map[string]struct{ frames, want []symbolize.Frame }{
		"a type of its own": {
			[]symbolize.Frame{{Kind: symbolize.Typed, Name: "<< irregexp >> RegExpInterpreter"}},
			[]symbolize.Frame{regexp},
		},
		"by its caller": {
			[]symbolize.Frame{{Kind: symbolize.Typed, Name: "[code]"}, execute},
			[]symbolize.Frame{regexp, execute},
		},
		"nameless, by its caller": {
			[]symbolize.Frame{{Name: symbolize.Unknown, Module: jit}, execute},
			[]symbolize.Frame{regexp, execute},
		},
		"a function that it calls": {
			[]symbolize.Frame{{Name: "memcpy"}, execute},
			[]symbolize.Frame{{Name: "memcpy"}, execute},
		},
		"code of another caller": {
			[]symbolize.Frame{{Kind: symbolize.Typed, Name: "[code]"}, {Name: "main"}},
			[]symbolize.Frame{{Kind: symbolize.Typed, Name: "[code]"}, {Name: "main"}},
		},
	} {
		nameRegExps(test.frames)
		if diff := cmp.Diff(test.want, test.frames); diff != "" {
			t.Errorf("%s: frames (-want +got):\n%s", name, diff)
		}
	}
}

func TestStartsOfThreadsAreNamed(t *testing.T) {
	const libc = "/usr/lib/x86_64-linux-gnu/libc.so.6"
	native := uint64(bpf.TraceFrameKindFRAME_NATIVE)<<kindShift | 0x1000
	main := symbolize.Frame{Name: "main", Module: "/usr/bin/node"}
	run := symbolize.Frame{Name: "worker", Module: "/usr/bin/node"}
	for name, test := range map[string]struct {
		frames, want []symbolize.Frame
		started      bool
	}{
		"program":                  {[]symbolize.Frame{main, {Name: "__libc_start_call_main", Module: libc}}, []symbolize.Frame{main, {Name: "_start", Module: "/usr/bin/node"}}, true},
		"thread":                   {[]symbolize.Frame{run, {Name: "start_thread", Module: libc}}, []symbolize.Frame{run, {Name: "start_thread", Module: libc}}, true},
		"thread and its caller":    {[]symbolize.Frame{run, {Name: "start_thread", Module: libc}, {Name: "clone3", Module: libc}}, []symbolize.Frame{run, {Name: "start_thread", Module: libc}}, true},
		"of another library":       {[]symbolize.Frame{run, {Name: "start_thread", Module: "/lib/libother.so"}}, []symbolize.Frame{run, {Name: "start_thread", Module: "/lib/libother.so"}}, false},
		"in the middle":            {[]symbolize.Frame{{Name: "start_thread", Module: libc}, run, main}, []symbolize.Frame{{Name: "start_thread", Module: libc}, run, main}, false},
		"nothing":                  {nil, nil, false},
		"a main that calls itself": {[]symbolize.Frame{main, main}, []symbolize.Frame{main, main}, false},
	} {
		words := make([]uint64, len(test.frames))
		for i := range words {
			words[i] = native
		}
		g := &target{exe: "/usr/bin/node"}
		got, started := g.nameStart(words, test.frames)
		if diff := cmp.Diff(test.want, got); diff != "" || started != test.started {
			t.Errorf("%s: started = %v, want %v; frames (-want +got):\n%s", name, started, test.started, diff)
		}
	}
}

func TestJumpsAreRelativeToTheNextInstruction(t *testing.T) {
	for _, test := range []struct {
		operand []byte
		want    uint64
	}{{[]byte{0x10, 0, 0, 0}, 0x1010}, {[]byte{0xf0, 0xff, 0xff, 0xff}, 0xff0}} {
		if got := jump(0x1000, test.operand); got != test.want {
			t.Errorf("jump of % x = %#x, want %#x", test.operand, got, test.want)
		}
	}
}

// TestFramelessCodeIsARangeOfItsOwn splits the code of a file that holds V8.
func TestFramelessCodeIsARangeOfItsOwn(t *testing.T) {
	const bias, native, framed = 0x10000, uint64(bpf.TraceCodeCODE_NATIVE), uint64(bpf.TraceRangeBitRANGE_FRAMED)
	whole := bpf.TraceRange{Start: bias + 0x1000, End: bias + 0x4000 | native}
	b := &binary{
		rows:  rowRange{first: 7, count: 2},
		rules: &unwind.Rules{Frameless: []unwind.Span{{Start: 0x800, End: 0x1001}, {Start: 0x2008, End: 0x2fff}, {Start: 0x5000, End: 0x6000}}},
	}
	got := b.framed(whole, bias)
	want := []bpf.TraceRange{
		{Start: bias + 0x1000, End: bias + 0x1010 | native},
		{Start: bias + 0x1010, End: bias + 0x2000 | native | framed},
		{Start: bias + 0x2000, End: bias + 0x3000 | native},
		{Start: bias + 0x3000, End: bias + 0x4000 | native | framed},
	}
	for i := range want {
		want[i].Bias, want[i].Rows, want[i].RowCount = bias, 7, 2
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(bpf.TraceRange{})); diff != "" {
		t.Errorf("ranges (-want +got):\n%s", diff)
	}
	b.rows.count = 0
	if got := b.framed(whole, bias); len(got) != 1 || got[0] != whole {
		t.Errorf("ranges without rows = %v, want %v", got, whole)
	}
}
