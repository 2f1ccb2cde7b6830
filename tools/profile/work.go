package profile

import (
	"path"
	"slices"
	"strings"

	"ustack/symbolize"
	"ustack/tools/profile/internal/lazyregexp"
)

// A work is what V8 and native code do for a JavaScript function. Only this
// file decides what it is called, but for V8's own activities.
type work struct {
	kind  symbolize.Kind // Builtin if the language defines it, else Native
	label string
}

// works labels functions and everything they call, in V8 9.4 to 14.6 and
// Node.js 16 to 26. The first pattern that matches a name decides.
var works = []namedWork{
	language("JSON.parse", `^v8::internal::(Builtin_)?JsonPars`),
	language("JSON.stringify", `^v8::internal::(Builtin_)?(Fast)?JsonStringif`),
	language("Error.stack", `^v8::internal::(Isolate::Capture\w*Stack|ErrorUtils::)`),
	language("Intl", `^(v8::internal::(Intl|JS(Collator|DateTimeFormat|NumberFormat|PluralRules|Segmenter))|icu_\d+::)`),
	language("BigInt", `^v8::(internal::(Mutable)?BigInt|bigint::)`),

	library("inline cache", `^v8::internal::Runtime_\w*IC_(Miss|Slow)`),
	library("serialize", `^(v8::(internal::)?Value|node::serdes::)Serializer`),
	library("deserialize", `^(v8::(internal::)?Value|node::serdes::)Deserializer`),

	library("crypto.pbkdf2", crypto+`PBKDF2`),
	library("crypto.scrypt", crypto+`Scrypt`),
	library("crypto.hkdf", crypto+`HKDF`),
	library("crypto.argon2", crypto+`Argon2`),
	library("crypto.randomBytes", crypto+`RandomBytes`),
	library("crypto.generatePrime", crypto+`RandomPrime`),
	library("crypto.checkPrime", crypto+`CheckPrime`),
	library("crypto.generateKey", crypto+`\w*Key(Pair)?Gen`),
	library("crypto.hmac", crypto+`Hmac`),
	library("crypto.hash", crypto+`Hash`),
	library("crypto.cipher", crypto+`\w*Cipher`),
	library("crypto.sign, verify", crypto+`SignTraits`), // one job for both
	library("crypto.sign", crypto+`Sign`),
	library("crypto.verify", crypto+`Verify`),
	library("crypto.diffieHellman", crypto+`(DH|ECDH|DiffieHellman)`),
	library("tls", crypto+`(TLS|SecureContext)`),
	library("crypto", crypto),
	library("openssl", `^_*(EVP|HMAC|SHA\d+|MD5|AES|RSA|EC|BN|SSL|PKCS5|OPENSSL|ossl|sha\d+|md5|aes|aesni|gcm|bn|rsaz|ecp_nistz256|ChaCha20|poly1305)_`),

	library("zlib.brotli", compression+`(<.*?)?Brotli|^Brotli`),
	library("zlib.zstd", compression+`(<.*?)?Zstd|^ZSTD_`),
	library("zlib", compression+`|^(de|in)flate`),

	library("Buffer", `^(node::(Buffer|StringBytes)::|simdutf::)`),
	library("text encoding", `^node::(encoding_binding|i18n)::`),
	library("URL", `^(node::url::|ada::)`),
	library("HTTP parser", `^(node::(\(anonymous namespace\)|http_parser)::\w*Parser::|llhttp_)`),
	library("HTTP/2", `^(node::http2::|nghttp2_)`),
	library("socket I/O", `^node::(LibuvStreamWrap|StreamBase|StreamResource|TCPWrap|PipeWrap|UDPWrap|ConnectionWrap)`),
	library("dns", `^(node::cares_wrap::|ares_)`),
	library("child_process", `^node::(\(anonymous namespace\)::ProcessWrap|SyncProcessRunner)`),
	library("structured clone", `^node::worker::Message`),
	library("vm", `^node::contextify::`),
	library("sqlite", `^node::sqlite::`),
	library("async_hooks", `^node::AsyncWrap::`),
	library("$1.$2", `^node::([a-z]\w*)::([A-Z]\w*)`), // other bindings, such as node::fs::Open
}

const (
	// crypto begins the names of node::crypto's classes, and of the jobs that are
	// templates of them.
	crypto = `^(?:non-virtual thunk to )?node::crypto::(?:\w+<node::crypto::)*`
	// compression begins the names of zlib's classes, likewise.
	compression = `^node::\(anonymous namespace\)::(CompressionStream|\w*Stream|Zlib)`
)

var (
	// passes matches functions that say nothing about the work: they call an API
	// callback or a JavaScript function.
	passes = lazyregexp.New(`^(v8::internal::(\(anonymous namespace\)::)?(Builtin_(Impl_)?HandleApi|HandleApiCall|Builtins::InvokeApiFunction|` +
		`Invoke|Execution::|(Function|Property)CallbackArguments|MicrotaskQueue::)|v8::(Function|Script|MicrotasksScope|MicrotaskQueue)::|` +
		`v8impl::|napi_|Napi::|Nan::|node::(\w*MakeCallback|InternalCallbackScope|CallbackScope|AsyncWrap::MakeCallback))`)
	engine = lazyregexp.New(`^(non-virtual thunk to )?(v8|node)::`)
)

// A namedWork is the work of the functions whose name matches. In its label, $1
// and $2 are what the pattern captures.
type namedWork struct {
	work
	names *lazyregexp.Regexp
}

func language(label, names string) namedWork {
	return namedWork{work{symbolize.Builtin, label}, lazyregexp.New(names)}
}

func library(label, names string) namedWork {
	return namedWork{work{symbolize.Native, label}, lazyregexp.New(names)}
}

// workOf returns the work of functions of that name, zero if it is not known.
func workOf(name string) work {
	for _, known := range works {
		if at := known.names.Compiled().FindStringSubmatchIndex(name); at != nil {
			if !strings.Contains(known.label, "$") {
				return known.work
			}
			label := known.names.Compiled().ExpandString(nil, known.label, name, at)
			return work{known.kind, capitals.Compiled().ReplaceAllStringFunc(string(label), strings.ToLower)}
		}
	}
	return work{}
}

// capitals are those at the start of a binding's function: fs.LStat is lstat, in
// JavaScript, and fs.CopyFile copyFile.
var capitals = lazyregexp.New(`\.[A-Z]+`)

// The modules of frames that stand for others.
const (
	nativeCode   = "V8 and native code" // work for a function of the program's
	noJavaScript = "no JavaScript"      // a whole stack
)

// work returns the one frame that stands for native frames, leaf first: V8's own
// activity, else the label of the outermost one that has any, else the outermost one that
// says something about the work.
func (c classifier) work(native []symbolize.Frame) symbolize.Frame {
	switch doing, _ := c.activity(native); {
	case native[0].Kind == symbolize.Runtime:
		return native[0]
	case doing != nil:
		return doing.work.frame()
	}
	for _, f := range slices.Backward(native) {
		m := c.meaning(f.Name)
		if m.work != (work{}) {
			return m.work.frame()
		}
		if f.Kind == symbolize.Native && f.Name != "" && m.foreign && !m.passes && !mark(f) { // an add-on's, whatever library it calls
			break
		}
	}
	for _, f := range slices.Backward(native) {
		if f.Name != "" && f.Name != anonymous && !c.meaning(f.Name).passes && !mark(f) {
			return function(f)
		}
	}
	outermost := native[len(native)-1]
	if outermost.Module == "" || outermost.Name != "" {
		return work{symbolize.Native, "native code"}.frame()
	}
	return symbolize.Frame{Kind: outermost.Kind, Name: path.Base(outermost.Module), Module: outermost.Module}
}

func (w work) frame() symbolize.Frame {
	return symbolize.Frame{Kind: w.kind, Name: w.label, Module: nativeCode}
}

// places say where stacks without JavaScript run, by a function that is on them:
// the first place that has one decides, then the category. The label of catNative
// is also that of categories without one.
var places = []struct {
	names  *lazyregexp.Regexp
	labels map[category]string
}{
	{lazyregexp.New(`PlatformWorkerThread|DelayedTaskScheduler|^v8::platform::`), map[category]string{
		catGC: "GC threads", catCompile: "compiler threads", catIdle: "idle", catNative: "other threads of V8",
	}},
	{lazyregexp.New(`^(worker|uv__(fs|getaddrinfo|getnameinfo|queue|random)_work)$`), map[category]string{
		catIdle: "idle", catNative: "libuv's thread pool",
	}},
	{lazyregexp.New(`^(uv_run|node::SpinEventLoop)`), map[category]string{
		catGC: "GC between callbacks", catCompile: "compile between callbacks", catIdle: "idle", catNative: "event loop",
	}},
	{lazyregexp.New(`^(main$|node::(Start|LoadEnvironment|worker::Worker::Run))`), map[category]string{
		catGC: "GC between callbacks", catIdle: "idle", catNative: "start and exit of Node.js",
	}},
	{lazyregexp.New(``), map[category]string{
		catGC: "GC threads", catCompile: "compiler threads", catIdle: "idle", catNative: "other native code",
	}},
}

// placeOf returns the index in places of a function's name.
func placeOf(name string) int {
	i := 0
	for !places[i].names.MatchString(name) { // the last one matches all
		i++
	}
	return i
}

// group returns the frame that stands for a whole stack without JavaScript.
func (c classifier) group(frames []symbolize.Frame) symbolize.Frame {
	at := len(places) - 1
	for _, f := range frames {
		at = min(at, c.meaning(f.Name).place)
	}
	labels := places[at].labels
	label, ok := labels[c.category(frames)]
	if !ok {
		label = labels[catNative]
	}
	return symbolize.Frame{Name: label, Module: noJavaScript}
}
