package trace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/symbolize/v8/wasm"
)

// maxNamed bounds the distinct frames that are named this way. The rest are unknown
// WebAssembly code.
const maxNamed = 1 << 20

// maxWasmModules bounds the modules of a process whose URLs are kept.
const maxWasmModules = 1 << 12

// Names of code between WebAssembly and JavaScript.
const (
	toWasm   = "js-to-wasm"
	fromWasm = "wasm-to-js"
)

// unknownWasm is code of a WebAssembly module of which nothing else is known.
var unknownWasm = symbolize.Frame{Kind: symbolize.Wasm, Name: "wasm code"}

// A codeFinder finds WebAssembly code, as a wasm.Reader does.
type codeFinder interface {
	Lookup(pc uint64) (code wasm.Code, name string, err error)
}

// A wasmModule is a WebAssembly module of a process.
type wasmModule struct {
	url string // as V8 gives it: "wasm://wasm/1a2b3c4d"; empty until it is known
}

// A namedFrame is a frame without its file, which is in its module.
type namedFrame struct {
	frame  symbolize.Frame
	module *wasmModule // nil if it has none
}

func (n namedFrame) full() symbolize.Frame {
	if n.module != nil {
		n.frame.File = n.module.url
	}
	return n.frame
}

// number returns the word of a named frame: the kernel sends no frames of that kind.
func (t *Table) number(n namedFrame) uint64 {
	at, ok := t.numbers[n]
	if !ok {
		if len(t.named) >= maxNamed {
			n = namedFrame{frame: unknownWasm}
			if at, ok := t.numbers[n]; ok {
				return uint64(bpf.TraceFrameKindFRAME_NAMED)<<kindShift | at
			}
		}
		at = uint64(len(t.named))
		t.named = append(t.named, n)
		t.numbers[n] = at
	}
	return uint64(bpf.TraceFrameKindFRAME_NAMED)<<kindShift | at
}

// Wasm handles a kernel record about which script a WebAssembly frame belongs to.
func (t *Table) Wasm(raw []byte) {
	r := Decode[bpf.TraceWasm](raw)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	g := t.owners[uint32(r.Owner>>32)]
	url := t.scripts[scriptKey{r.Owner, r.Script}].name
	if g == nil || g.wasm == nil || url == "" {
		return
	}
	if len(g.urls) < maxURLs {
		g.urls = append(g.urls, wasmURL{r.Pc - 1, url}) // it may be a return address: the call is before it
	}
	g.placeURLs()
}

// A wasmURL is the URL of the module whose code is at pc.
type wasmURL struct {
	pc  uint64
	url string
}

// maxURLs bounds the URLs whose modules have not been found yet.
const maxURLs = 64

// placeURLs gives modules their URLs. URLs that cannot be placed now are kept for
// later, since V8 may be changing what is read.
func (g *target) placeURLs() {
	g.urls = slices.DeleteFunc(g.urls, func(u wasmURL) bool {
		code, _, err := g.wasm.Lookup(u.pc)
		if err != nil {
			return errors.Is(err, wasm.ErrNoCode)
		}
		if m := g.module(code.Module); m.url == "" {
			m.url = u.url
		} else if m.url != u.url { // another module has taken its place
			g.modules[code.Module] = &wasmModule{url: u.url}
		}
		return true
	})
}

// module returns the module with that identity.
func (g *target) module(id uint64) *wasmModule {
	m := g.modules[id]
	if m == nil {
		if len(g.modules) >= maxWasmModules {
			clear(g.modules)
		}
		m = &wasmModule{}
		g.modules[id] = m
	}
	return m
}

// nameWasm returns the words of a stack, with those of WebAssembly functions named
// while their code exists: V8 frees code once it has compiled it better.
func (t *Table) nameWasm(g *target, words []uint64) []uint64 {
	leaf := slices.IndexFunc(words, func(w uint64) bool { return kindOf(w) != bpf.TraceFrameKindFRAME_KERNEL })
	if len(g.urls) > 0 {
		g.placeURLs()
	}
	t.retryWasm(g)
	for i := 0; i < len(words); i++ {
		word, pc := words[i], placeOf(words, i).within
		switch {
		case g.isWasmFrame(word):
			f := t.wasmFrame(g, pc)
			words[i] = t.number(f)
			if f.frame == unknownWasm && g.wasm != nil && len(g.retries) < maxRetries {
				g.retries = append(g.retries, wasmRetry{&words[i], pc, time.Now().Add(retryFor)})
			}
		case i == leaf && g.mayBeWasm(word):
			f := t.wasmFrame(g, pc)
			if f.frame == unknownWasm {
				continue
			}
			words[i] = t.number(f)
			if kindOf(word) == bpf.TraceFrameKindFRAME_TYPED { // the caller's frame: the function has no frame yet
				i++
				words = slices.Insert(words, i, word&^pcMask)
			}
		}
	}
	return words
}

// A wasmRetry is a frame whose code was not found. A stack is sent once, so a lookup
// that failed because V8 was changing what it read would leave all its samples
// without the name.
type wasmRetry struct {
	word  *uint64 // in the stack
	pc    uint64
	until time.Time
}

// Bounds on the frames that are looked up again. Later, other code may be in the
// place of code that V8 has freed.
const (
	maxRetries = 64
	retryFor   = time.Second
	retryEvery = 10 * time.Millisecond
)

// retryWasm looks up frames whose code was not found at first.
func (t *Table) retryWasm(g *target) {
	if time.Since(g.retried) < retryEvery {
		return
	}
	g.retried = time.Now()
	g.retries = slices.DeleteFunc(g.retries, func(r wasmRetry) bool {
		if time.Now().After(r.until) {
			return true
		}
		f := t.wasmFrame(g, r.pc)
		if f.frame == unknownWasm {
			return false
		}
		*r.word = t.number(f)
		return true
	})
}

// isWasmFrame reports whether the word is for the frame of a WebAssembly function.
func (g *target) isWasmFrame(word uint64) bool {
	return kindOf(word) == bpf.TraceFrameKindFRAME_TYPED && g.binary != nil && g.binary.v8 != nil &&
		g.binary.v8.Layout.FrameWasm != 0 && uint8(word>>typeShift) == g.binary.v8.Layout.FrameWasm
}

// mayBeWasm reports whether the word is for code that has no frame of its own and is
// in no file.
func (g *target) mayBeWasm(word uint64) bool {
	if g.wasm == nil {
		return false
	}
	switch kindOf(word) {
	case bpf.TraceFrameKindFRAME_CODE, bpf.TraceFrameKindFRAME_TYPED:
		m := g.find(word & pcMask)
		return m == nil || m.Anonymous()
	}
	return false
}

// wasmFrame names the WebAssembly code at pc.
func (t *Table) wasmFrame(g *target, pc uint64) namedFrame {
	unknown := namedFrame{frame: unknownWasm}
	if g.wasm == nil {
		t.warn(fmt.Errorf("process %d: %s is stripped of symbols, so functions of WebAssembly are not named", g.process.PID(), g.binary.path))
		return unknown
	}
	code, name, err := g.wasm.Lookup(pc)
	if err != nil {
		if !errors.Is(err, wasm.ErrNoCode) && g.failed(err) {
			t.warn(ofProcess(g.process.PID(), fmt.Errorf("name WebAssembly functions: %w", err)))
		}
		return unknown
	}
	return namedFrame{
		frame:  symbolize.Frame{Kind: symbolize.Wasm, Tier: code.Tier, Name: name},
		module: g.module(code.Module),
	}
}

// wrapperOf returns the name to show for a typed frame with that label, if it is code
// between WebAssembly and JavaScript.
func wrapperOf(label string) (name string, ok bool) {
	kind, builtin, _ := strings.Cut(label, " >>")
	switch strings.TrimPrefix(kind, "<< ") {
	case "js to wasm":
		return toWasm, true
	case "wasm to js", "wasm to js function":
		return fromWasm, true
	case "cwasm entry":
		return "c-to-wasm", true
	}
	if strings.HasPrefix(strings.TrimSpace(builtin), "WasmToJs") { // V8 12 and later: in a stub frame
		return fromWasm, true
	}
	return "", false
}

// isWrapper reports whether f is code between WebAssembly and JavaScript.
func isWrapper(f symbolize.Frame) bool {
	return f.Kind == symbolize.Wasm && (f.Name == toWasm || f.Name == fromWasm)
}
