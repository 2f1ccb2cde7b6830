package profile

import (
	"strings"

	"ustack/symbolize"
	"ustack/tools/profile/internal/lazyregexp"
)

// An activity is what V8 does on its own beside running code: a program causes it
// but does not call it. Only this file decides which native functions do it.
type activity struct {
	label    string // of the one frame that stands for all of it, in brackets
	category category
	work     work // the same among the kinds of native work
	general  bool // a function that says more, on the same stack, decides
	names    *lazyregexp.Regexp
}

// activities are those of V8 9.4 to 14.6 (Node.js 16 to 26). Their functions assign
// everything they call to an activity. The first pattern that matches a name decides.
var activities = []activity{
	{"GC scavenge", catGC, collects, false, inV8(`Heap::(Scavenge|MinorMark|EvacuateYoungGeneration)|Scaveng|RootScavengeVisitor|` +
		`(SemiSpace)?NewSpace::(Flip|EvacuatePrologue|SwapSemiSpaces)|Young[A-Z]\w*Mark|MinorMark|MinorGCJob|ConcurrentMarking::(RunMinor|JobTaskMinor)`)},
	{"GC mark-compact", catGC, collects, false, inV8(`Heap::(CollectAll(Available)?Garbage|MarkCompact)|(Major)?Mark(Compact|Sweep|ing)|` +
		`ConcurrentMarking|IncrementalMarking|MainMarkingVisitor|Sweeper|(Page)?Evacuat|PointersUpdating|ParallelClearing|Clear\w+JobItem`)},
	{"GC", catGC, collects, true, inV8(`Heap::(CollectGarbage|PerformGarbageCollection)|ArrayBufferSweeper|GCTracer|` +
		`GlobalHandles::(Iterate|Process)|ItemParallelJob|(Activate)?MemoryReducer|MemoryAllocator::Unmapper|MemoryPool::Release|ReleasePooledChunks|` +
		`ParallelWeakHandles|CppHeap::CollectGarbage`)},
	{"GC", catGC, collects, true, lazyregexp.New(`^(non-virtual thunk to )?(cppgc::internal|heap::base)::`)},

	{"deoptimize", catNative, work{symbolize.Native, "deoptimize"}, false, inV8(`Deoptimizer::|Runtime_NotifyDeoptimized`)},

	{"parse", catCompile, compiles, false, inV8(`parsing::|Parser|PreParser`)},
	{"optimize", catCompile, compiles, false, inV8(`compiler::|maglev::|turboshaft::|OptimizingCompile|OptimizedCompilationJob|` +
		`Turbofan\w*Job|Compiler::CompileOptimized|Runtime_(Compile(Optimized|Maglev|Turbofan)|Start\w+OptimizeJob|Optimize(Maglev|Turbofan|Function|Osr))`)},
	{"regexp compile", catCompile, compiles, false, inV8(`RegExp(Impl::Compile|Compiler|::Compile)`)},
	{"compile", catCompile, compiles, true, inV8(`Compiler::|baseline::|interpreter::(Bytecode|Interpreter::)|LazyCompileDispatcher|` +
		`\w*CompilationJob|Background(Compile|Deserialize)Task|Baseline(BatchCompiler|Compiler)|wasm::(\(anonymous namespace\)::)?(\w*Compil|ExecuteCompilation|Liftoff|Validate|DeserializeCode)`)},
	{"compile", catCompile, compiles, true, lazyregexp.New(`^v8::ScriptCompiler::`)},

	{"regexp", catJavaScript, work{symbolize.Builtin, "regexp"}, false, inV8(`IrregexpInterpreter|ExperimentalRegExp`)},
}

var (
	collects = work{symbolize.Native, "GC"}
	compiles = work{symbolize.Native, "compile"}
)

// inV8 matches the names of V8's own functions that begin with the pattern.
func inV8(pattern string) *lazyregexp.Regexp {
	return lazyregexp.New(`^(non-virtual thunk to )?v8::internal::(\(anonymous namespace\)::)?(` + pattern + `)`)
}

// activityOf returns the activity of functions of that name, nil if it is not known.
func activityOf(name string) *activity {
	for i := range activities {
		if activities[i].names.MatchString(name) {
			return &activities[i]
		}
	}
	return nil
}

// labelled returns the activity that a frame of kind Runtime is of.
func labelled(name string) *activity {
	for i := range activities {
		if strings.HasPrefix(name, "["+activities[i].label) { // the source of a regular expression follows
			return &activities[i]
		}
	}
	return nil
}

// IsActivity reports whether a frame of that name is of kind Runtime: it is what V8 does, in
// place of the functions that do it.
func IsActivity(name string) bool {
	return strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]") && labelled(name) != nil
}

// executes is the activity of a regular expression's machine code.
var executes = labelled("[regexp]")

// ofFrame returns the activity of a frame, nil if it is not known.
func (c classifier) ofFrame(f symbolize.Frame) *activity {
	switch f.Kind {
	case symbolize.Runtime:
		return labelled(f.Name)
	case symbolize.RegExp:
		return executes
	}
	return c.meaning(f.Name).activity
}

// activity returns what V8 does below the nearest JavaScript or WebAssembly function
// of a stack, leaf first, and the index of the outermost frame of that; nil if nothing
// is known. Whatever starts a collection, it is a collection; else the outermost
// function decides.
func (c classifier) activity(frames []symbolize.Frame) (doing *activity, outermost int) {
	for i, f := range frames {
		if scripted(f) {
			break
		}
		a := c.ofFrame(f)
		switch {
		case a == nil || doing.collects() && !a.collects():
			continue
		case doing == nil || a.collects() != doing.collects() || !a.general || doing.general:
			doing = a
		}
		outermost = i
	}
	return doing, outermost
}

func (a *activity) collects() bool { return a != nil && a.category == catGC }

// Runtime returns p with one frame of kind Runtime in place of the native frames in
// which V8 collects garbage, compiles, deoptimizes or executes a regular expression,
// at the leaf of stacks. Its name is what V8 does, as in "[GC scavenge]". V8's own
// functions between it and what has caused it are left out, too.
func (p *Profile) Runtime() *Profile {
	return p.edit(classifier{}.runtime)
}

func (c classifier) runtime(frames []symbolize.Frame) []symbolize.Frame {
	doing, outermost := c.activity(frames)
	if doing == nil || frames[0].Kind == symbolize.Runtime {
		return frames
	}
	callers := frames[outermost+1:]
	for len(callers) > 0 && internal(callers[0]) {
		callers = callers[1:]
	}
	return append([]symbolize.Frame{doing.frame(frames)}, callers...)
}

// internals are V8's own functions, except those that begin its threads.
var internals = lazyregexp.New(`^(non-virtual thunk to )?v8::(internal|base|[A-Z])`)

// internal reports whether a frame is V8's own and says nothing of what the program has
// called.
func internal(f symbolize.Frame) bool {
	return f.Kind == symbolize.Typed || f.Kind == symbolize.Native && internals.MatchString(f.Name)
}

// frame returns the one frame that stands for a stack's frames of the activity.
func (a *activity) frame(frames []symbolize.Frame) symbolize.Frame {
	label := a.label
	if a == executes {
		label += source(frames)
	}
	return symbolize.Frame{Kind: symbolize.Runtime, Name: "[" + label + "]"}
}

// source returns the source of the regular expression that is executed, after a blank;
// it is empty if it is not known.
func source(frames []symbolize.Frame) string {
	for _, f := range frames {
		if f.Kind == symbolize.RegExp {
			if source, ok := strings.CutPrefix(f.Name, symbolize.RegExpPrefix); ok {
				return " " + source
			}
		}
		if scripted(f) {
			break
		}
	}
	return ""
}
