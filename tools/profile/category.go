package profile

import (
	"fmt"
	"regexp"
	"strings"

	"ustack/symbolize"
)

// A category is what a sample's time was spent on. Only this file decides
// which.
type category int

const (
	catJavaScript category = iota // JavaScript, regular expressions, and V8's builtins and glue for them
	catWasm                       // WebAssembly; listed only if present
	catGC                         // V8's garbage collector, on any thread
	catCompile                    // V8's parsers and compilers, likewise
	catNative                     // other machine code
	catKernel                     // the kernel, if its frames were recorded
	catIdle                       // going to sleep and waking up: waiting itself takes no CPU time
	categories
)

var categoryNames = [categories]string{"JavaScript", "WebAssembly", "GC", "compile", "native", "kernel", "idle"}

var kindCategories = map[symbolize.Kind]category{
	symbolize.JS: catJavaScript, symbolize.Builtin: catJavaScript, symbolize.Typed: catJavaScript,
	symbolize.Native: catNative, symbolize.Kernel: catKernel, symbolize.Wasm: catWasm, symbolize.RegExp: catJavaScript,
}

// The names of functions that assign everything they call to one category: in
// V8 9.4 to 14.6 (Node.js 16 to 26), libuv, glibc and Linux.
var (
	collects = regexp.MustCompile(`^(non-virtual thunk to )?(v8::internal::(\(anonymous namespace\)::)?` +
		`(Heap::(CollectGarbage|CollectAllGarbage|PerformGarbageCollection|Scavenge|MarkCompact)|Scaveng|Young[A-Z]\w*Mark|` +
		`(Minor|Major)?Mark(Compact|Sweep|ing)|ConcurrentMarking|IncrementalMarking|MainMarkingVisitor|Sweeper|Evacuat|` +
		`ArrayBufferSweeper|GCTracer|GlobalHandles::(Iterate|Process)|RootScavengeVisitor|PointersUpdating|ItemParallelJob)|` +
		`cppgc::internal::|heap::base::)`)
	compiles = regexp.MustCompile(`^(non-virtual thunk to )?v8::(ScriptCompiler::|internal::(\(anonymous namespace\)::)?` +
		`(Compiler::|compiler::|maglev::|baseline::|parsing::|Parser|PreParser|interpreter::(Bytecode|Interpreter::)|` +
		`(Optimizing|Lazy)CompileDispatcher|\w*CompilationJob|BackgroundCompileTask|Baseline(BatchCompiler|Compiler)|` +
		`wasm::(\w*Compil|ExecuteCompilation|Liftoff)|RegExp(Impl::Compile|Compiler|::Compile)|turboshaft::))`)
	waits = regexp.MustCompile(`^(uv__io_poll|epoll_p?wait2?|p?poll|p?select|(clock_)?nanosleep|pthread_cond_(timed|clock)?wait|` +
		`sem_(timed|clock)?wait|uv_(cond|sem)_(timed)?wait|__futex_abstimed_wait\w*|do_epoll_wait|ep_poll|futex_wait\w*|do_nanosleep)$`)
)

// A meaning is what a native function's name says.
type meaning struct {
	collects, compiles, waits bool
	passes                    bool // it says nothing about the work
	foreign                   bool // it is of neither V8 nor Node.js
	work                      work // zero if it is not known
	place                     int  // in places
}

// A classifier says what stacks spend their time on. It remembers the meaning
// of each name: regular expressions are slow.
type classifier map[string]meaning

func (c classifier) meaning(name string) meaning {
	m, ok := c[name]
	if !ok {
		m = meaning{
			collects: collects.MatchString(name), compiles: compiles.MatchString(name), waits: waits.MatchString(name),
			passes: passes.MatchString(name), foreign: !engine.MatchString(name),
			work: workOf(name), place: placeOf(name),
		}
		c[name] = m
	}
	return m
}

// category returns the category of a stack. It is decided by what native code
// does below the nearest JavaScript or WebAssembly function; a collection
// started by such code is still a collection.
func (c classifier) category(frames []symbolize.Frame) category {
	var compiling bool
	for _, f := range frames {
		if scripted(f) {
			break
		}
		m := c.meaning(f.Name)
		if m.collects {
			return catGC
		}
		compiling = compiling || m.compiles
	}
	if compiling {
		return catCompile
	}
	for _, f := range frames {
		if c.meaning(f.Name).waits {
			return catIdle
		}
		if f.Kind != symbolize.Kernel && f.Name != "" {
			break
		}
	}
	return kindCategories[frames[0].Kind]
}

// byCategory returns a line that says how a profile's samples are divided among
// categories.
func byCategory(p *Profile) string {
	var counts [categories]uint64
	c := classifier{}
	for _, s := range p.Stacks {
		counts[c.category(s.frames())] += s.Value
	}
	var parts []string
	for c, count := range counts {
		if count > 0 || category(c) != catWasm {
			parts = append(parts, fmt.Sprintf("%s %.1f%%", categoryNames[c], percent(count, p.Total)))
		}
	}
	return strings.Join(parts, "  ")
}
