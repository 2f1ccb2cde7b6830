package profile

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize"
)

func TestActivityOfV8(t *testing.T) {
	type frames = []symbolize.Frame
	collect, compile := native("v8::internal::Heap::CollectGarbage(v8::internal::AllocationSpace)", 0), native("v8::internal::Compiler::Compile", 0)
	f, re := js("f", "/a.js", 1, 1), symbolize.Frame{Kind: symbolize.RegExp, Name: "RegExp: /a(b|c)+/gu"}
	worker := frames{native("start_thread", 0), native("node::(anonymous namespace)::PlatformWorkerThread(void*)", 0), native("v8::platform::DefaultJobWorker::Run()", 0)}
	join := func(parts ...frames) (all frames) {
		for _, part := range parts {
			all = append(all, part...)
		}
		return all
	}
	for name, tt := range map[string]struct {
		frames frames // root first
		want   string // leaf first
	}{
		"scavenge":                {frames{f, typed("<< exit >>"), native("v8::internal::Runtime_AllocateInYoungGeneration", 0), collect, native("v8::internal::Heap::Scavenge", 0), native("v8::internal::ScavengerCollector::CollectGarbage", 0), native("memcpy", 0)}, "[GC scavenge] f"},
		"mark-compact":            {frames{f, collect, native("v8::internal::Heap::MarkCompact", 0), native("v8::internal::MarkCompactCollector::CollectGarbage", 0)}, "[GC mark-compact] f"},
		"sweeping in a scavenge":  {frames{f, collect, native("v8::internal::Heap::Scavenge", 0), native("v8::internal::Sweeper::EnsureCompleted", 0)}, "[GC scavenge] f"},
		"prologue":                {frames{f, collect, native("node::performance::MarkGarbageCollectionStart", 0)}, "[GC] f"},
		"C++ objects":             {frames{f, collect, native("cppgc::internal::MarkerBase::AdvanceMarking", 0)}, "[GC] f"},
		"for a builtin":           {frames{f, builtin("parse"), native("v8::internal::Builtin_JsonParse(int, unsigned long*)", 0), native("v8::internal::Factory::NewJSObject", 0), collect, native("v8::internal::Heap::Scavenge", 0)}, "[GC scavenge] parse f"},
		"for a binding":           {frames{f, native("node::Buffer::New", 0), native("v8::ArrayBuffer::New", 0), collect, native("v8::internal::Heap::Scavenge", 0)}, "[GC scavenge] node::Buffer::New f"},
		"in a compiler":           {frames{f, compile, native("v8::internal::parsing::ParseFunction", 0), collect, native("v8::internal::Heap::MarkCompact", 0)}, "[GC mark-compact] f"},
		"helper thread":           {join(worker, frames{native("v8::internal::ConcurrentMarking::JobTaskMajor::Run", 0)}), "[GC mark-compact] v8::platform::DefaultJobWorker::Run() node::(anonymous namespace)::PlatformWorkerThread(void*) start_thread"},
		"helper of a scavenge":    {join(worker[:1], frames{native("v8::internal::ScavengerJobTask::Run", 0)}), "[GC scavenge] start_thread"},
		"parse":                   {frames{f, native("v8::internal::Runtime_CompileLazy", 0), compile, native("v8::internal::parsing::ParseAny", 0), native("v8::internal::ParserBase<v8::internal::Parser>::ParseBinary", 0)}, "[parse] f"},
		"bytecode":                {frames{f, compile, native("v8::internal::interpreter::BytecodeGenerator::VisitBlock", 0)}, "[compile] f"},
		"Sparkplug":               {frames{f, native("v8::internal::baseline::BaselineCompiler::GenerateCode", 0)}, "[compile] f"},
		"reads bytecode":          {frames{f, native("v8::internal::Runtime_CompileOptimized", 0), compile, native("v8::internal::compiler::Pipeline::Run", 0), native("v8::internal::interpreter::BytecodeArrayIterator::Advance", 0)}, "[optimize] f"},
		"Maglev":                  {join(worker[:1], frames{native("v8::internal::OptimizingCompileDispatcher::CompileNext", 0), native("v8::internal::maglev::MaglevCompilationJob::ExecuteJobImpl", 0)}), "[optimize] start_thread"},
		"deoptimize":              {frames{f, native("v8::internal::Deoptimizer::DoComputeOutputFrames", 0), native("malloc", 0)}, "[deoptimize] f"},
		"regular expression":      {frames{f, builtin("test"), native("v8::internal::RegExp::Exec", 0), re}, "[regexp /a(b|c)+/gu] test f"},
		"called by it":            {frames{f, re, native("v8::internal::NativeRegExpMacroAssembler::GrowStack", 0)}, "[regexp /a(b|c)+/gu] f"},
		"collection in it":        {frames{f, re, collect}, "[GC] RegExp: /a(b|c)+/gu f"},
		"nameless":                {frames{f, {Kind: symbolize.RegExp, Name: "(regexp)"}}, "[regexp] f"},
		"interpreted":             {frames{f, native("v8::internal::RegExpImpl::IrregexpExec", 0), native("v8::internal::IrregexpInterpreter::Match", 0)}, "[regexp] f"},
		"compiled":                {frames{f, native("v8::internal::RegExpImpl::Compile", 0), native("v8::internal::RegExpParserImpl<char>::Parse", 0)}, "[regexp compile] f"},
		"JavaScript in between":   {frames{collect, f}, "f " + collect.Name},
		"other native code":       {frames{f, native("v8::internal::Runtime_StringSplit", 0)}, "v8::internal::Runtime_StringSplit f"},
		"a function of that name": {frames{js("v8::internal::Heap::Scavenge", "/a.js", 1, 1)}, "v8::internal::Heap::Scavenge"},
		"gap":                     {frames{f, {Name: symbolize.Broken}, native("v8::internal::Factory::New", 0), collect}, "[GC] [gap] f"},
	} {
		p := profileOf(on(3, tt.frames))
		q := p.Runtime()
		var got []string
		for _, g := range q.Stacks[0].Frames {
			got = append(got, g.Name)
			if (g.Kind == symbolize.Runtime) != (strings.HasPrefix(g.Name, "[") && g.Name != symbolize.Broken) {
				t.Errorf("%s: kind of %s = %v", name, g.Name, g.Kind)
			}
		}
		if got := strings.Join(got, " "); got != tt.want || q.Total != p.Total {
			t.Errorf("%s: stack = %q of %d samples, want %q of %d", name, got, q.Total, tt.want, p.Total)
		}
		if diff := cmp.Diff(q.Stacks, q.Runtime().Stacks); diff != "" {
			t.Errorf("%s: Runtime changes its own result (-first +second):\n%s", name, diff)
		}
		if was, is := byCategory(p), byCategory(q); was != is {
			t.Errorf("%s: categories = %q, want %q as before", name, is, was)
		}
	}
}

// busy is a profile of f and g, for which V8 works.
func busy() *Profile {
	type frames = []symbolize.Frame
	f, g := js("f", "/srv/a.js", 1, 1), tier(symbolize.Interpreted, js("g", "/srv/a.js", 9, 1))
	collect := native("v8::internal::Heap::Scavenge", 0)
	return profileOf(
		on(20, frames{f}), on(12, frames{f, builtin("parse"), collect}), on(8, frames{f, native("v8::internal::Compiler::Compile", 0)}),
		on(30, frames{f, g}), on(5, frames{f, g, collect}), on(5, frames{f, tier(symbolize.Turbofan, g)}),
		on(10, frames{native("main", 0), native("uv_run", 0), collect}),
		on(10, frames{f, {Kind: symbolize.RegExp, Name: "RegExp: /(a|b)+/"}}),
	)
}

func TestTopSaysWhatV8DoesForAFunction(t *testing.T) {
	got := write(t, "top", busy().Runtime(), Options{})
	want := `Native:  [GC scavenge] 17.0%  [regexp /(a|b)+/] 10.0%  [compile] 8.0%

   SELF      SELF+NATIVE   TOTAL  FUNCTION
  20.0%        50  50.0%   90.0%  f  a.js:1:1
               12  12.0%            [GC scavenge]
               10  10.0%            [regexp /(a|b)+/]
                8   8.0%            [compile]
  35.0%        40  40.0%   40.0%  g  a.js:9:1
                5   5.0%            [GC scavenge]
               10  10.0%   10.0%  GC between callbacks  no JavaScript
               10  10.0%            [GC scavenge]
`
	if !strings.HasSuffix(got, want) {
		t.Errorf("table = \n%s\nwant it to end in\n%s", got, want)
	}
	if got := write(t, "top", busy().Runtime(), Options{MinPercent: 9}); strings.Contains(got, "[compile]\n") || !strings.Contains(got, "[GC scavenge]\n") {
		t.Errorf("rows below 9 %% are not left out, or others are:\n%s", got)
	}
}

// TestEveryFormatHasWhatV8Does checks that what V8 does, and tiers, are in every format.
func TestEveryFormatHasWhatV8Does(t *testing.T) {
	for _, format := range Formats {
		if format.Name == "pprof" { // it is compressed
			continue
		}
		got := write(t, format.Name, busy().Runtime(), Options{Tiers: true})
		for _, want := range []string{`\[GC scavenge\]`, `\[regexp /[(\[]a\|b[)\]].*/\]`, `(g \[|"tier": ?")turbofan`, `interpreted`} {
			if !regexp.MustCompile(want).MatchString(got) {
				t.Errorf("%s: no match of %s in\n%s", format.Name, want, got)
			}
		}
		if got := write(t, format.Name, busy(), Options{}); strings.Contains(got, "g [") {
			t.Errorf("%s: a tier is in a name although it was not asked for:\n%s", format.Name, got)
		}
	}
	p, err := busy().Runtime().ByTier().Pprof()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range p.Function {
		names = append(names, f.Name)
	}
	for _, want := range []string{"[GC scavenge]", "g [turbofan]", "g [interpreted]"} {
		if !strings.Contains(strings.Join(names, "\n")+"\n", want+"\n") {
			t.Errorf("no function %q in pprof's %q", want, names)
		}
	}
}

func TestJSOnlyKeepsWhatV8Does(t *testing.T) {
	want := map[string]uint64{
		"f ": 20, "[GC scavenge] f ": 12, "[compile] f ": 8, "g f ": 35, "[GC scavenge] g f ": 5, "[GC scavenge] ": 10,
		"[regexp /(a|b)+/] f ": 10,
	}
	if diff := cmp.Diff(want, names(busy().Runtime().JSOnly())); diff != "" {
		t.Errorf("stacks differ (-want +got):\n%s", diff)
	}
}

func TestTierIsAfterTheName(t *testing.T) {
	for want, f := range map[string]symbolize.Frame{
		"f [maglev]":                 tier(symbolize.Maglev, symbolize.Frame{Kind: symbolize.JS, Name: "f"}),
		"(anonymous) [baseline]":     tier(symbolize.Baseline, symbolize.Frame{Kind: symbolize.JS}),
		"wasm-function[1] [liftoff]": tier(symbolize.Liftoff, symbolize.Frame{Kind: symbolize.Wasm, Name: "wasm-function[1]"}),
		"main":                       native("main", 0),
	} {
		if got := Label(WithTier(f)); got != want {
			t.Errorf("label = %q, want %q", got, want)
		}
	}
}
