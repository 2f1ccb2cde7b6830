package profile

import (
	"debug/elf"
	"fmt"
	"regexp"
	"testing"

	"github.com/ianlancetaylor/demangle"

	"ustack/testdata/nodetest"
)

// TestFunctionsOfActivitiesAreInV8 checks that the functions by which activities are
// recognized are those of every version.
func TestFunctionsOfActivitiesAreInV8(t *testing.T) {
	functions := map[string]string{
		"v8::internal::Heap::Scavenge": "GC scavenge", "v8::internal::Heap::MarkCompact": "GC mark-compact",
		"v8::internal::Heap::PerformGarbageCollection": "GC", "cppgc::internal::Heap::CollectGarbage": "GC",
		"v8::internal::Deoptimizer::New": "deoptimize", "v8::internal::parsing::ParseProgram": "parse",
		"v8::internal::Compiler::Compile": "compile", "v8::internal::interpreter::BytecodeGenerator::GenerateBytecode": "compile",
		"v8::ScriptCompiler::Compile": "compile", "v8::internal::OptimizedCompilationJob::ExecuteJob": "optimize",
		"v8::internal::RegExpImpl::Compile": "regexp compile", "v8::internal::IrregexpInterpreter::MatchForCallFromRuntime": "regexp",
	}
	last := regexp.MustCompile(`(Scavenge|MarkCompact|PerformGarbageCollection|CollectGarbage|New|ParseProgram|Compile|GenerateBytecode|ExecuteJob|MatchForCallFromRuntime)E`)
	eachVersion(t, last, func(t *testing.T, names map[string]bool) {
		for name, want := range functions {
			if a := activityOf(name); !names[name] || a == nil || a.label != want {
				t.Errorf("%s: in V8: %v, activity: %+v, want %s", name, names[name], a, want)
			}
		}
	})
}

// otherTasks are the tasks that V8 leaves to its threads or to the event loop for
// something else than collections and compilations, or to call them.
var otherTasks = regexp.MustCompile(`^v8::internal::(\(anonymous namespace\)::)?(Cancelable|AsyncWaiter|ResolveAsyncWaiter|` +
	`CpuProfile|metrics::|FinalizationRegistryCleanup|CollectCustomSpace|Stress|Heartbeat|RunInterrupts|GlobalSafepoint|` +
	`(Idle)?TaskOnContextDispose|MemoryPressure|BackgroundCollection|` +
	`wasm::(\w*::)?(\(anonymous namespace\)::)?(LogCodes|PublishTask|CopyAndReloc|SampleTopTier|TriggerCodeCaching|WriteOutPGO|ClearWeakScript|WasmGCForeground|ReportLazyCompilation)|DefaultWasmAsyncResolve)`)

// TestTasksOfV8AreKnown checks that everything that V8 leaves to its threads is either of
// an activity or known to be none.
func TestTasksOfV8AreKnown(t *testing.T) {
	tasks := regexp.MustCompile(`^v8::internal::.*(Job|Task|JobItem|Dispatcher)\w*::Run(Internal|Impl|OnMainThread)?$`)
	eachVersion(t, regexp.MustCompile(`Run(Internal|Impl|OnMainThread)?E`), func(t *testing.T, names map[string]bool) {
		known := 0
		for name := range names {
			switch {
			case !tasks.MatchString(name) || otherTasks.MatchString(name):
			case activityOf(name) == nil:
				t.Errorf("%s is of no activity", name)
			default:
				known++
			}
		}
		if known < 10 {
			t.Errorf("tasks of known activities = %d, want 10 or more", known)
		}
	})
}

// eachVersion calls f with the names of those functions in each version whose mangled
// names match.
func eachVersion(t *testing.T, mangled *regexp.Regexp, f func(*testing.T, map[string]bool)) {
	for _, version := range nodetest.Versions {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			file, err := elf.Open(nodetest.Node(t, version))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			symbols, err := file.Symbols()
			if err != nil {
				t.Fatal(err)
			}
			names := map[string]bool{}
			for _, s := range symbols {
				if mangled.MatchString(s.Name) {
					names[demangle.Filter(s.Name, demangle.NoParams, demangle.NoEnclosingParams, demangle.NoClones)] = true
				}
			}
			f(t, names)
		})
	}
}
