package profile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize"
)

func TestWorkOfNativeCode(t *testing.T) {
	type frames = []symbolize.Frame
	nameless := in("/lib/libc.so.6", symbolize.Frame{Offset: 0x1234})
	gap := symbolize.Frame{Name: symbolize.Broken}
	for want, run := range map[string]frames{ // root first
		"JSON.parse":       {builtin("parse"), native("v8::internal::Builtin_JsonParse(int, unsigned long*)", 0), native("v8::internal::JsonParser<unsigned char>::ParseJson", 0)},
		"JSON.stringify":   {native("v8::internal::JsonStringifier::Serialize_<false>", 0), native("malloc", 0)},
		"GC":               {builtin("parse"), native("v8::internal::Builtin_JsonParse", 0), native("v8::internal::Heap::CollectGarbage", 0), native("memcpy", 0)},
		"compile":          {native("v8::internal::Runtime_CompileLazy", 0), native("v8::internal::Compiler::Compile", 0)},
		"regexp":           {builtin("replace"), native("v8::internal::Runtime_RegExpExec", 0), native("v8::internal::IrregexpInterpreter::Match", 0)},
		"crypto.pbkdf2":    {native("node::crypto::CryptoJob<node::crypto::PBKDF2Traits>::Run", 0), native("HMAC_Final", 0)},
		"crypto.scrypt":    {native("non-virtual thunk to node::crypto::DeriveBitsJob<node::crypto::ScryptTraits>::DoThreadPoolWork()", 0)},
		"crypto.hmac":      {native("node::crypto::Hmac::HmacUpdate(v8::FunctionCallbackInfo<v8::Value> const&)", 0)},
		"crypto.hash":      {native("node::crypto::Hash::OneShotDigest", 0)},
		"serialize":        {native("node::serdes::SerializerContext::WriteValue", 0), native("v8::ValueSerializer::WriteValue", 0)},
		"deserialize":      {native("v8::internal::ValueDeserializer::ReadObject", 0)},
		"structured clone": {native("node::worker::Message::Serialize", 0)},
		"text encoding":    {native("node::encoding_binding::BindingData::DecodeUTF8", 0)},
		"crypto":           {native("node::crypto::X509Certificate::Parse", 0)},
		"crypto.sign":      {native("node::crypto::Sign::SignUpdate", 0)},
		"openssl":          {gap, native("sha512_block_data_order_avx2", 0)},
		"zlib":             {native("node::(anonymous namespace)::CompressionStream<node::(anonymous namespace)::ZlibContext>::Write<false>", 0), native("deflate", 0)},
		"zlib.brotli":      {native("node::(anonymous namespace)::CompressionStream<node::(anonymous namespace)::BrotliEncoderContext>::Write<false>", 0)},
		"zlib.zstd":        {native("node::(anonymous namespace)::ZstdStream<node::(anonymous namespace)::ZstdCompressContext>::Init", 0)},
		"fs.open":          {native("node::fs::Open(v8::FunctionCallbackInfo<v8::Value> const&)", 0), native("uv_fs_open", 0)},
		"fs.lstat":         {native("node::fs::LStat", 0)},
		"fs.mkdir":         {native("node::fs::MKDir", 0)},
		"fs.readFileUtf8":  {native("node::fs::ReadFileUtf8", 0)},
		"os.getCPUInfo":    {native("node::os::GetCPUInfo", 0)},
		"socket I/O":       {native("node::StreamBase::Writev", 0), native("uv__write", 0), kernel("tcp_sendmsg", 0)},
		"sort":             {builtin("sort"), native("v8::internal::Runtime_Something", 0)},
		"Compute(Input&)":  {native("v8::internal::Builtin_HandleApiCall", 0), native("v8impl::(anonymous namespace)::FunctionCallbackWrapper::Invoke", 0), native("Compute(Input&)", 0), native("EVP_DigestUpdate", 0)},
		"Runtime_MapGrow":  {native("v8::internal::Runtime_MapGrow", 0), native("malloc", 0)},
		"asm_exc_page":     {kernel("asm_exc_page", 0)},
		"libc.so.6":        {nameless, nameless},
		"native code":      {gap},
		"add-on's, not V8": {builtin("(anonymous)"), native("add-on's, not V8", 0)},
	} {
		stack := on(1, run)
		if got := shortName((classifier{}).work(stack.Frames)); got != want {
			t.Errorf("work = %q, want %q", got, want)
		}
	}
}

func TestGroupOfStacksWithoutJavaScript(t *testing.T) {
	type frames = []symbolize.Frame
	loop := frames{native("main", 0), native("node::Start(int, char**)", 0), native("uv_run", 0)}
	helper := frames{native("start_thread", 0), native("node::(anonymous namespace)::PlatformWorkerThread(void*)", 0)}
	collect := frames{native("v8::internal::Heap::CollectGarbage", 0)}
	pool := frames{native("worker", 0), native("uv__queue_work", 0)}
	nameless := in("/lib/libc.so.6", symbolize.Frame{Offset: 0x1234})
	for _, tt := range []struct {
		want  string
		stack Stack
	}{
		{"idle", on(1, loop, frames{native("uv__io_poll", 0), native("epoll_pwait", 0)})},
		{"idle", on(1, helper, frames{native("uv_cond_wait", 0), native("pthread_cond_wait", 0), nameless, kernel("futex_wait", 0)})},
		{"event loop", on(1, loop, frames{native("uv__run_check", 0)})},
		{"event loop", on(1, loop, frames{builtin("RunMicrotasks")})},
		{"GC between callbacks", on(1, loop, collect)},
		{"GC threads", on(1, helper, collect)},
		{"compiler threads", on(1, helper, frames{native("v8::internal::OptimizedCompilationJob::ExecuteJob", 0)})},
		{"other threads of V8", on(1, helper, frames{native("free", 0)})},
		{"libuv's thread pool", on(1, pool, frames{native("EVP_DigestUpdate", 0)})},
		{"start and exit of Node.js", on(1, loop[:2], frames{native("node::InitializeOncePerProcess", 0)})},
		{"other native code", on(1, frames{{Name: symbolize.Unknown}})},
		{"other native code", on(1)},
	} {
		if got := (classifier{}).group(tt.stack.frames()); got.Name != tt.want || ofProgram(got) {
			t.Errorf("group of %v = %+v, want %q", names(profileOf(tt.stack)), got, tt.want)
		}
	}
}

// nested is a program in which f calls g natively, and both call native code.
func nested() *Profile {
	type frames = []symbolize.Frame
	f, g, re := js("f", "/x.js", 1, 1), js("g", "/x.js", 2, 1), symbolize.Frame{Kind: symbolize.RegExp, Name: "RegExp: /a+/"}
	wasm := symbolize.Frame{Kind: symbolize.Wasm, Name: "mul", File: "wasm://wasm/1"}
	root := frames{native("main", 0), native("uv_run", 0)}
	parse := frames{builtin("parse"), native("v8::internal::Builtin_JsonParse", 0)}
	return profileOf(
		on(2, root, frames{f}),
		on(3, root, frames{f}, parse),
		on(5, root, frames{f}, parse, frames{native("v8::internal::JsonParser<char>::Parse", 0)}),
		on(7, root, frames{f}, parse, frames{g}),
		on(11, root, frames{f}, parse, frames{g, f, native("v8::internal::Heap::CollectGarbage", 0)}), // f is on it twice
		on(13, root, frames{g, builtin("replace"), re}),
		on(17, root, frames{g, wasm, native("malloc", 0)}),
		on(19, root, frames{native("uv__io_poll", 0)}),
		on(23, frames{native("worker", 0), native("uv__fs_work", 0)}),
		on(29, frames{{Name: symbolize.Truncated}, g}),
	)
}

func TestProgramsAddUp(t *testing.T) {
	type numbers struct{ Self, Native, Total uint64 }
	got := map[string]numbers{}
	var sum uint64
	for _, r := range programs(nested().Stacks) {
		got[r.frame.Name] = numbers{r.self, r.native, r.total}
		sum += r.native
	}
	want := map[string]numbers{
		"f": {2, 2 + 3 + 5 + 11, 2 + 3 + 5 + 7 + 11}, "g": {7 + 29, 7 + 29, 7 + 11 + 13 + 17 + 29},
		"RegExp: /a+/": {13, 13, 13}, "mul": {0, 17, 17},
		"idle": {0, 19, 19}, "libuv's thread pool": {0, 23, 23},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows differ (-want +got):\n%s", diff)
	}
	for name, p := range fixtures() {
		sum := uint64(0)
		for _, r := range programs(p.Stacks) {
			sum += r.native
		}
		if sum != p.Total {
			t.Errorf("%s: rows have %d samples, want %d", name, sum, p.Total)
		}
	}
	if sum != nested().Total {
		t.Errorf("rows have %d samples, want %d", sum, nested().Total)
	}
}

func TestFoldKeepsEverySample(t *testing.T) {
	got := nested().folded()
	want := map[string]uint64{
		"f ": 2, "JSON.parse f ": 3 + 5, "g JSON.parse f ": 7, "GC f g JSON.parse f ": 11,
		"RegExp: /a+/ replace g ": 13, "malloc mul g ": 17, "idle ": 19, "libuv's thread pool ": 23, "g [truncated] ": 29,
	}
	if diff := cmp.Diff(want, names(got)); diff != "" {
		t.Errorf("stacks differ (-want +got):\n%s", diff)
	}
	if got.Total != nested().Total || sum(got) != got.Total {
		t.Errorf("samples = %d of %d, want %d", sum(got), got.Total, nested().Total)
	}
}

func TestTopShowsAllFunctionsOfAProgramWithoutJavaScript(t *testing.T) {
	p := profileOf(on(3, []symbolize.Frame{native("main", 0), native("compute", 0)}))
	if got := write(t, "top", p, Options{}); !strings.Contains(got, "compute  node\n") {
		t.Errorf("no function of the program in:\n%s", got)
	}
}

func TestTopAlwaysShowsGroups(t *testing.T) {
	got := write(t, "top", nested(), Options{Rows: 1})
	for _, want := range []string{
		"Native:  malloc 13.2%  GC 8.5%  JSON.parse 6.2%\n",
		"  27.9%        36  27.9%   59.7%  g  x.js:2:1\n",
		"               19  14.7%   14.7%  idle  no JavaScript\n",
		"\n3 functions not shown, with 39.5% of the samples in themselves and native code\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}

func TestShortNames(t *testing.T) {
	for name, want := range map[string]string{
		"v8::internal::Heap::CollectGarbage":                                              "Heap::CollectGarbage",
		"v8::internal::(anonymous namespace)::Invoke":                                     "Invoke",
		"v8::internal::JsonParser<unsigned char>::ParseJsonValue<false>":                  "JsonParser<…>::ParseJsonValue<false>",
		"node::Start(int, char**)":                                                        "node::Start(int, char**)",
		"node::fs::Open(v8::FunctionCallbackInfo<v8::Value> const&)":                      "node::fs::Open(…)",
		"std::vector<int, std::allocator<int> >::push_back(int&&)":                        "std::vector<…>::push_back(int&&)",
		"std::function<void (int, long, char)>::operator()(int, long, char, short) const": "std::function<…>::operator()(…) const",
		"bool operator< <std::string, std::string>(A const&, B const&)":                   "bool operator< <…>(…)",
		"A::operator->() const":                                                           "A::operator->() const",
		"decltype (x->y(1, 2, 3, 4)) call<a>(b)":                                          "decltype (…) call<a>(b)",
		"unbalanced<a, long list of arguments":                                            "unbalanced<a, long list of arguments",
		"f(a > b, c < d) > e":                                                             "f(a > b, c < d) > e",
		"non-virtual thunk to v8::internal::CancelableTask::Run()":                        "non-virtual thunk to CancelableTask::Run()",
		"f()": "f()", "": "", "<": "<", "a<b<c<d<e>>>>": "a<b<c<d<e>>>>",
	} {
		if got := shorten(name); got != want {
			t.Errorf("shorten(%q) = %q, want %q", name, got, want)
		}
	}
	if f := js("v8::internal::mine<unsigned long>", "/a.js", 1, 1); shortName(f) != f.Name {
		t.Errorf("a JavaScript name is shown as %q, want it whole", shortName(f))
	}
}
