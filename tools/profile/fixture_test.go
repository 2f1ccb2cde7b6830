package profile

import (
	"fmt"
	"strings"
	"time"

	"ustack/symbolize"
)

const nodeBinary = "/usr/local/bin/node"

func js(name, file string, line, column int) symbolize.Frame {
	return symbolize.Frame{Kind: symbolize.JS, Tier: symbolize.Turbofan, Name: name, File: file, Line: line, Column: column}
}

func native(name string, offset uint64) symbolize.Frame {
	return symbolize.Frame{Kind: symbolize.Native, Name: name, Module: nodeBinary, Offset: offset}
}

func in(module string, f symbolize.Frame) symbolize.Frame {
	f.Module = module
	return f
}

func tier(t symbolize.Tier, f symbolize.Frame) symbolize.Frame {
	f.Tier = t
	return f
}

func builtin(name string) symbolize.Frame {
	return symbolize.Frame{Kind: symbolize.Builtin, Name: name, Module: nodeBinary}
}

func typed(name string) symbolize.Frame { return symbolize.Frame{Kind: symbolize.Typed, Name: name} }

func kernel(name string, offset uint64) symbolize.Frame {
	return symbolize.Frame{Kind: symbolize.Kernel, Name: name, Module: "[kernel]", Offset: offset}
}

// on returns a stack of process 4242's main thread, its frames root first.
func on(count uint64, parts ...[]symbolize.Frame) Stack {
	s := Stack{Value: count, PID: 4242, TID: 4242, Thread: "node"}
	for _, part := range parts {
		for _, f := range part {
			s.Frames = append([]symbolize.Frame{f}, s.Frames...)
		}
	}
	return s
}

func profileOf(stacks ...Stack) *Profile {
	p := &Profile{
		Node: "v22.23.3", V8: "12.4.254.21", Hz: 99,
		Start: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Duration: 10 * time.Second,
		Stacks: stacks,
	}
	p.Total = sum(p)
	return p
}

// sum returns the sum of the values of p's stacks.
func sum(p *Profile) (total uint64) {
	for _, s := range p.Stacks {
		total += s.Value
	}
	return total
}

// server is a web server's profile: requests on the main thread, the pool's and
// a worker's threads beside it.
func server() *Profile {
	type frames = []symbolize.Frame
	start := frames{
		in("/lib/x86_64-linux-gnu/libc.so.6", native("__libc_start_main", 0x85)), native("main", 0x1b),
		native("node::Start(int, char**)", 0x1a7), native("node::SpinEventLoopInternal(node::Environment*)", 0x15c),
		native("uv_run", 0x1b5), native("uv__io_poll", 0x4c1),
	}
	parse := frames{
		native("node::(anonymous namespace)::Parser::Execute(char const*, unsigned long)", 0x63),
		native("llhttp__internal_execute", 0x1f44), typed("entry"), js("parserOnHeadersComplete", "node:_http_common", 71, 33),
		js("parserOnIncoming", "node:_http_server", 1034, 26),
		js("Server.emit", "node:events", 466, 44), js("(anonymous)", "/srv/shop/server.js", 41, 31),
	}
	render := frames{js("renderPage", "/srv/shop/lib/render.js", 118, 20), js("Template.expand", "/srv/shop/lib/template.js", 57, 9)}
	query := frames{tier(symbolize.Maglev, js("Catalog.find", "/srv/shop/lib/catalog.js", 22, 7))}
	worker := []Stack{
		{Value: 53, PID: 4242, TID: 4260, Thread: "node-worker", Frames: frames{
			js("resize", "/srv/shop/lib/thumbnails.js", 9, 16), typed("entry"), native("node::worker::Worker::Run()", 0x2f1),
		}},
		{Value: 29, PID: 4242, TID: 4251, Thread: "libuv-worker", Frames: frames{
			in("/usr/lib/x86_64-linux-gnu/libz.so.1", symbolize.Frame{Offset: 0x7a1c}), native("uv__fs_work", 0x3a1), native("worker", 0x91),
		}},
		{Value: 11, PID: 4242, TID: 4251, Thread: "libuv-worker", Frames: frames{
			kernel("copy_user_enhanced_fast_string", 0xe), kernel("vfs_read", 0x9d), kernel("do_syscall_64", 0x3a),
			in("/lib/x86_64-linux-gnu/libc.so.6", native("read", 0x4d)), native("uv__fs_work", 0x3a1), native("worker", 0x91),
		}},
	}
	escapeHTML := js("escapeHtml", "/srv/shop/lib/escape.js", 3, 21)
	stacks := []Stack{
		on(211, start, parse, render, frames{escapeHTML}),
		on(83, start, parse, render, frames{tier(symbolize.Interpreted, escapeHTML)}),
		on(61, start, parse, render, frames{escapeHTML, builtin("StringPrototypeReplace"), builtin("RegExpReplace")}),
		on(37, start, parse, render),
		on(71, start, parse, render, render, frames{js("get price", "/srv/shop/lib/catalog.js", 90, 12)}),
		on(97, start, parse, query, frames{tier(symbolize.Baseline, js("compare", "/srv/shop/lib/catalog.js", 64, 18)), builtin("StringPrototypeLocaleCompare")}),
		on(113, start, parse, query, frames{builtin("ArrayPrototypeSort"), js("compare", "/srv/shop/lib/catalog.js", 64, 18)}),
		on(47, start, parse, frames{
			js("ServerResponse.end", "node:_http_outgoing", 1012, 45), js("writev", "node:net", 901, 20),
			native("node::StreamBase::Writev(v8::FunctionCallbackInfo<v8::Value> const&)", 0x2c5), native("uv__write", 0xd1),
			in("/lib/x86_64-linux-gnu/libc.so.6", native("writev", 0x1d)), kernel("do_syscall_64", 0x3a), kernel("tcp_sendmsg", 0x27),
		}),
		on(59, start, frames{native("v8::internal::Heap::CollectGarbage(v8::internal::AllocationSpace)", 0x33d), native("v8::internal::ScavengerCollector::CollectGarbage()", 0x51a)}),
		on(7, frames{{Name: symbolize.Broken}, native("v8::internal::Scavenger::Process(v8::JobDelegate*)", 0x1e2)}),
		on(3, frames{{Name: symbolize.Truncated}, js("walk", "/srv/shop/lib/tree.js", 12, 14), js("walk", "/srv/shop/lib/tree.js", 12, 14)}),
	}
	p := profileOf(append(stacks, worker...)...)
	p.Lost, p.Truncated, p.UnknownFrames = 2, 3, 29
	p.Failures = map[string]uint64{"name": 7, "frame_pointer": 11}
	return p
}

// awkward has the names that break a careless writer.
func awkward() *Profile {
	names := []string{
		`say "hi" & 'bye' <b>`, "a;b;c", "a,b", "two\nlines\r\n", "</script><script>alert(1)</script>", "<!-- ]]> -->",
		"größe", "漢字カナ", "party🎉🎉", "bad\xff\xfeutf8", "bell\x07\x1b[31mred", "rtl\u202eevil", "42", "", "#private",
		"Object.<anonymous>", "c++ operator+", strings.Repeat("x", 10_000), "__proto__", "constructor",
	}
	var stacks []Stack
	for i, n := range names {
		f := js(n, "/srv/c++/"+n+".js", i+1, 1)
		stacks = append(stacks, on(uint64(i+1), []symbolize.Frame{native("main", 0), f}))
	}
	nameless := []symbolize.Frame{
		{Kind: symbolize.JS},
		{Kind: symbolize.JS, Name: "evaluated"},
		{Kind: symbolize.JS, Name: "7"},
		{Offset: 0x1234},
		{},
		in("/opt/My Add-on;1.node", symbolize.Frame{Offset: 0xbeef}),
		in("[vdso]", native("__vdso_gettimeofday", 0x44)), native("std::vector<int, std::allocator<int> >::push_back(int&&)", 0),
	}
	for i, f := range nameless {
		stacks = append(stacks, on(uint64(100+i), []symbolize.Frame{native("main", 0), f}))
	}
	return profileOf(stacks...)
}

func deep() *Profile {
	var frames []symbolize.Frame
	for i := range 300 {
		frames = append(frames, js(fmt.Sprintf("level%d", i), "/srv/deep.js", i+1, 1))
	}
	return profileOf(on(5, frames))
}

func one() *Profile { return profileOf(on(1, []symbolize.Frame{js("only", "/srv/one.js", 1, 1)})) }

// fixtures are what every format is tried on.
func fixtures() map[string]*Profile {
	return map[string]*Profile{
		"server": server().WithoutTyped(), "awkward": awkward(), "deep": deep(), "one": one(),
		"empty": {}, "frameless": profileOf(Stack{Value: 3, PID: 1, TID: 1}),
	}
}
