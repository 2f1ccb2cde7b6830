package profile

import (
	"strings"
	"testing"

	"ustack/symbolize"
)

func TestCategories(t *testing.T) {
	type frames = []symbolize.Frame
	f, collect := js("f", "/a.js", 1, 1), native("v8::internal::Heap::CollectGarbage", 0)
	for name, tt := range map[string]struct {
		frames frames // leaf first
		want   category
	}{
		"JavaScript":               {frames{f, native("main", 0)}, catJavaScript},
		"builtin":                  {frames{builtin("ArrayMap"), f}, catJavaScript},
		"handler":                  {frames{typed("LdaZeroHandler"), f}, catJavaScript},
		"native, called by it":     {frames{native("deflate", 0), f}, catNative},
		"runtime of V8":            {frames{native("v8::internal::Runtime_StringSplit", 0), f}, catNative},
		"collection":               {frames{native("memcpy", 0), native("v8::internal::Scavenger::Process", 0), collect, f}, catGC},
		"collector's thread":       {frames{native("v8::internal::ConcurrentMarking::RunMajor", 0), native("worker", 0)}, catGC},
		"collection, in a fault":   {frames{kernel("clear_page_erms", 0), collect, f}, catGC},
		"C++ heap":                 {frames{native("cppgc::internal::Sweeper::Start", 0)}, catGC},
		"called by a collection":   {frames{f, collect}, catJavaScript}, // such as a finalizer
		"compiler":                 {frames{native("malloc", 0), native("v8::internal::compiler::Pipeline::Run", 0), native("worker", 0)}, catCompile},
		"parser":                   {frames{native("v8::internal::ParserBase<v8::internal::Parser>::ParseBinary", 0), f}, catCompile},
		"collection in a compiler": {frames{collect, native("v8::internal::Compiler::Compile", 0)}, catGC},
		"kernel":                   {frames{kernel("tcp_sendmsg", 0), native("write", 0), f}, catKernel},
		"wait":                     {frames{native("epoll_pwait", 0), native("uv__io_poll", 0)}, catIdle},
		"wait, in the kernel":      {frames{kernel("schedule", 0), kernel("ep_poll", 0), native("epoll_wait", 0)}, catIdle},
		"work below the loop":      {frames{native("uv__read", 0), native("uv__io_poll", 0)}, catNative},
		"mark":                     {frames{{Name: symbolize.Broken}}, catNative},
	} {
		if got := (classifier{}).category(tt.frames); got != tt.want {
			t.Errorf("%s: category = %s, want %s", name, categoryNames[got], categoryNames[tt.want])
		}
	}
}

func TestTopSaysCategoriesInALine(t *testing.T) {
	got := strings.Split(write(t, "top", server(), Options{}), "\n")[1]
	if want := "JavaScript 82.7%  GC 7.5%  compile 0.0%  native 3.3%  kernel 6.6%  idle 0.0%"; got != want {
		t.Errorf("line = %q, want %q", got, want)
	}
	only := server().JSOnly()
	if got := write(t, "top", only, Options{}); strings.Contains(got, "GC 0.0%") {
		t.Errorf("what was taken out of stacks is said to be 0:\n%s", got)
	}
}

func TestTopTellsFilesOfOneNameApart(t *testing.T) {
	frame := func(file string) []symbolize.Frame { return []symbolize.Frame{js("handle", file, 12, 3)} }
	p := profileOf(
		on(4, frame("/srv/app/node_modules/express/lib/router/index.js")), on(3, frame("/srv/app/node_modules/express/index.js")),
		on(2, frame("/srv/a/lib/index.js")), on(1, frame("/srv/b/lib/index.js")),
		on(1, frame("/srv/"+strings.Repeat("deep/", 40)+"very/long/name/of.js")),
		on(1, []symbolize.Frame{native("v8::internal::"+strings.Repeat("Some", 20)+"::TheFunction", 0)}))
	got := write(t, "top", p, Options{Native: true}) + write(t, "top", p, Options{})
	for _, want := range []string{
		"  router/index.js:12:3\n", "  express/index.js:12:3\n", "  a/lib/index.js:12:3\n", "  b/lib/index.js:12:3\n",
		"  of.js:12:3\n", "Some::TheFunction  node\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	for _, line := range strings.Split(got, "\n") {
		if n := len([]rune(line)); n > topColumns {
			t.Errorf("line of %d columns, want %d at most: %s", n, topColumns, line)
		}
	}
}
