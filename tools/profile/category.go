package profile

import (
	"fmt"
	"strings"

	"ustack/symbolize"
	"ustack/tools/profile/internal/lazyregexp"
)

// A category is what a sample's time was spent on.
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
	symbolize.Native: catNative, symbolize.Kernel: catKernel, symbolize.Wasm: catWasm,
}

// waits matches functions in which a thread sleeps, in libuv, glibc and Linux.
var waits = lazyregexp.New(`^(uv__io_poll|epoll_p?wait2?|p?poll|p?select|(clock_)?nanosleep|pthread_cond_(timed|clock)?wait|` +
	`sem_(timed|clock)?wait|uv_(cond|sem)_(timed)?wait|__futex_abstimed_wait\w*|do_epoll_wait|ep_poll|futex_wait\w*|do_nanosleep)$`)

// A meaning is what a native function's name says.
type meaning struct {
	activity *activity // nil if it is not known, or something else
	waits    bool
	passes   bool // it says nothing about the work
	foreign  bool // it is of neither V8 nor Node.js
	work     work // zero if it is not known
	place    int  // in places
}

// A classifier says what stacks spend their time on. It remembers the meaning
// of each name: regular expressions are slow.
type classifier map[string]meaning

func (c classifier) meaning(name string) meaning {
	m, ok := c[name]
	if !ok {
		m = meaning{
			activity: activityOf(name), waits: waits.MatchString(name),
			passes: passes.MatchString(name), foreign: !engine.MatchString(name),
			work: workOf(name), place: placeOf(name),
		}
		c[name] = m
	}
	return m
}

// category returns the category of a stack. It is decided by what V8 does below the
// nearest JavaScript or WebAssembly function, if that is known.
func (c classifier) category(frames []symbolize.Frame) category {
	if doing, _ := c.activity(frames); doing != nil {
		return doing.category
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

// A Categorizer says what stacks spend their time on. It remembers the meaning of names,
// up to a bound.
type Categorizer struct{ names classifier }

// maxMeanings bounds the names that a Categorizer remembers.
const maxMeanings = 1 << 14

// Category returns the word for what a stack, leaf first, spends its time on, as in the
// summary of a profile.
func (c *Categorizer) Category(frames []symbolize.Frame) string {
	if c.names == nil || len(c.names) > maxMeanings {
		c.names = classifier{}
	}
	if len(frames) == 0 {
		return categoryNames[catNative]
	}
	return categoryNames[c.names.category(frames)]
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
