// Package nodehttp finds in the machine code of a Node.js binary where its HTTP server
// and client can be observed from outside, and where they keep what there is to know
// about a request. Nothing is assumed by version: each place comes from a symbol, each
// offset from a function that uses it, and what contradicts another is an error.
package nodehttp

import (
	"debug/elf"
	"errors"
	"fmt"
	"iter"
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"ustack/symbolize/elfsym"
)

// A Binary is the file that holds node.
type Binary interface {
	Machine() elf.Machine
	// Symbols yields the symbols whose raw names begin with one of the prefixes.
	Symbols(prefixes ...string) iter.Seq[elfsym.Symbol]
	// Code returns a function's machine code and its offset in the file; nil if there is
	// no function of that name.
	Code(symbol string) (code []byte, offset uint64)
	// Address returns where a symbol is, as an address of the file.
	Address(symbol string) (address uint64, ok bool)
}

// A Point is where a function begins, or where another calls it.
type Point struct {
	Name   string // the function's symbol
	Offset uint64 // in the file
	Adjust int64  // what to add to the first argument
}

// Points are where HTTP is observed. The comments say what the functions are called with.
type Points struct {
	Headers  []Point // a Parser (adjusted), which has read a head
	Flush    []Point // a Parser (adjusted), which is about to discard the target
	TryWrite []Point // a StreamBase (adjusted), pointers to buffers and to their number
	TLSWrite []Point // a StreamBase (adjusted), a request, buffers, their number
	Read     []Point // a StreamListener, the number of bytes or an error, a buffer
	Shutdown []Point // a request, a handle of libuv that is a stream
	Close    []Point // a handle of libuv, which may be a stream
	Connect  []Point // a request, a handle of libuv that will be a client's stream

	// Callbacks of nghttp2, which have an Http2Session as their last argument.
	HTTP2Begin, HTTP2Field, HTTP2Sent, HTTP2Received, HTTP2Close []Point
}

// Offsets are where node 16 to 26 and libuv keep what is read, in bytes. They differ by
// version.
type Offsets struct {
	Stream  uint64 // from a Parser: its StreamBase; llhttp's parser is 16 bytes after it
	URL     uint64 // from a Parser: the target's text, whether it is on the heap, its length
	Started uint64 // from there, less than MaxTail: when the message began, in ns of CLOCK_MONOTONIC
	Wrapped uint64 // from a TLSWrap's StreamBase: the StreamBase that it encrypts for
	Wrap    uint64 // from a HandleWrap that is a stream: its StreamBase
	Session uint64 // from an Http2Session: its StreamBase
	Idle    uint64 // from a loop's metrics: how long it was idle, in ns
}

// MaxTail is the most bytes that a Parser has from its target to when its message began.
const MaxTail = 256

// A Layout is both.
type Layout struct {
	Points
	Offsets
	// Pauses is set if Started is 0 between two messages: since Node.js 18, which lists the connections
	// by when their messages began.
	Pauses bool
}

// ErrNoNode reports that a binary does not hold node's HTTP.
var ErrNoNode = errors.New("no Node.js with HTTP is in it, or it is stripped of symbols")

// errMachine reports a binary whose machine code is not understood.
var errMachine = errors.New("requests are followed in Node.js for x86-64 only")

// Find returns the layout of b's node. The error names what does not hold: a node that
// is built otherwise than expected cannot be observed.
func Find(b Binary) (*Layout, error) {
	if b.Machine() != elf.EM_X86_64 {
		return nil, errMachine
	}
	f := &finder{Binary: b, found: make(map[string][]elfsym.Symbol)}
	f.index()
	if len(f.found[parserBegin]) == 0 {
		return nil, ErrNoNode
	}
	l := new(Layout)
	for _, find := range []func(*Layout) error{
		f.parser, f.message, f.streams, f.idle, f.points,
	} {
		if err := find(l); err != nil {
			return nil, fmt.Errorf("this Node.js is not built as expected: %w", err)
		}
	}
	return l, nil
}

// Parts of the mangled names of the functions that are used. A class may be in a
// namespace without a name, and a clone is not the function.
const (
	parserBegin   = "6Parser5ProxyIMS1_FivEXadL_ZNS1_16on_message_beginEvEEE3RawEP"
	parserBegin22 = "6Parser16on_message_beginEv" // where it is apart from the one above
	parserHead    = "19on_headers_completeEvEEE3RawEP"
	parserHead20  = "6Parser19on_headers_completeEv"
	parserFlush   = "6Parser5FlushEv" // inlined in parserField before Node.js 22
	parserField   = "15on_header_fieldES4_mEEE3RawEP"
	parserFields  = "6Parser13CreateHeadersEv"
	parserLists   = "15ConnectionsList7ExpiredERKN2v820FunctionCallbackInfoINS2_5ValueEEE"
	parserRead    = "6Parser12OnStreamReadElRK8uv_buf_t"
	tryWrite      = "4node15LibuvStreamWrap10DoTryWriteEPP8uv_buf_tPm"
	tlsWrite      = "4node6crypto7TLSWrap7DoWriteEPNS_9WriteWrapEP8uv_buf_tmP11uv_stream_s"
	tlsRead       = "4node6crypto7TLSWrap12OnStreamReadElRK8uv_buf_t"
	emitRead      = "4node22EmitToJSStreamListener12OnStreamReadElRK8uv_buf_t"
	http2Begin    = "5http212Http2Session22OnBeginHeadersCallbackEP15nghttp2_sessionPK13nghttp2_framePv"
	http2Field    = "5http212Http2Session16OnHeaderCallbackEP15nghttp2_sessionPK13nghttp2_frameP13nghttp2_rcbufS8_hPv"
	http2Sent     = "5http212Http2Session11OnFrameSentEP15nghttp2_sessionPK13nghttp2_framePv"
	http2Received = "5http212Http2Session14OnFrameReceiveEP15nghttp2_sessionPK13nghttp2_framePv"
	http2Close    = "5http212Http2Session13OnStreamCloseEP15nghttp2_sessionijPv"
	http2Read     = "5http212Http2Session12OnStreamReadElRK8uv_buf_t"
	handleClose   = "uv_close"
	shutdown      = "uv_shutdown"
	tcpConnect    = "uv_tcp_connect"
	pipeConnect   = "uv_pipe_connect"
	pipeConnect2  = "uv_pipe_connect2" // since libuv 1.46
	idleTime      = "uv_metrics_idle_time"
	hrtime        = "uv_hrtime"
)

// parts are those of node's own functions.
var parts = []string{
	parserBegin, parserBegin22, parserHead, parserHead20, parserFlush, parserField, parserFields, parserLists, parserRead,
	tryWrite, tlsWrite, tlsRead, emitRead,
	http2Begin, http2Field, http2Sent, http2Received, http2Close, http2Read,
}

// A finder knows the functions of one binary by their parts.
type finder struct {
	Binary
	found map[string][]elfsym.Symbol
}

const (
	ofNode  = "_ZN4node"
	ofLibuv = "uv_"
	thunk   = "_ZThn"
)

// Symbols are the prefixes of all symbols that Find, FindCollections and FindFileJobs look up or search for.
var Symbols = []string{ofNode, ofLibuv, thunk, heapPrologue, heapEpilogue, heapCollect, heapCollector}

// index finds the functions, without clones such as .cold.
func (f *finder) index() {
	for s := range f.Symbols(ofNode, thunk) {
		if s.Type != elf.STT_FUNC || strings.Contains(s.Name, ".") {
			continue
		}
		for _, part := range parts {
			at := strings.Index(s.Name, part)
			if at < 0 || !strings.HasSuffix(part, "3RawEP") && !strings.HasSuffix(s.Name, part) {
				continue
			}
			f.found[part] = append(f.found[part], s)
		}
	}
}

// function returns the function that has part in its name, and is no thunk.
func (f *finder) function(part string) (elfsym.Symbol, bool) {
	for _, s := range f.found[part] {
		if !strings.HasPrefix(s.Name, thunk) {
			return s, true
		}
	}
	return elfsym.Symbol{}, false
}

// thunk returns the function for callers that have the class's base that is so many bytes
// after its beginning.
func (f *finder) thunk(part string) (s elfsym.Symbol, after uint64, err error) {
	for _, s := range f.found[part] {
		if n, _ := fmt.Sscanf(s.Name, thunk+"%d_", &after); n == 1 {
			return s, after, nil
		}
	}
	return s, 0, fmt.Errorf("no thunk of %s", part)
}

// point returns a function's beginning.
func (f *finder) point(name string, adjust int64) (Point, error) {
	code, offset := f.Code(name)
	if code == nil {
		return Point{}, fmt.Errorf("no %s", name)
	}
	return Point{Name: name, Offset: offset, Adjust: adjust}, nil
}

// add appends the point of the function that has part in its name.
func (f *finder) add(to *[]Point, part string, adjust int64) error {
	s, ok := f.function(part)
	if !ok {
		return fmt.Errorf("no %s", part)
	}
	p, err := f.point(s.Name, adjust)
	if err != nil {
		return err
	}
	*to = append(*to, p)
	return nil
}

// points finds all points.
func (f *finder) points(l *Layout) error {
	try, base, err := f.thunk(tryWrite)
	if err != nil {
		return err
	}
	_, tlsBase, err := f.thunk(tlsWrite)
	if err != nil {
		return err
	}
	l.Wrap = uint64(base)
	_, l.Pauses = f.function(parserLists)
	p, err := f.point(try.Name, 0)
	if err != nil {
		return err
	}
	l.TryWrite = append(l.TryWrite, p)
	if p, err = f.point(handleClose, 0); err != nil {
		return err
	}
	l.Close = append(l.Close, p)
	if p, err = f.point(shutdown, 0); err != nil {
		return err
	}
	l.Shutdown = append(l.Shutdown, p)
	for _, name := range []string{tcpConnect, pipeConnect, pipeConnect2} {
		if p, err := f.point(name, 0); err == nil {
			l.Connect = append(l.Connect, p)
		} else if name != pipeConnect2 {
			return err
		}
	}
	if l.Flush, err = f.flush(); err != nil {
		return err
	}
	headers, adjust := parserHead20, int64(0)
	if _, ok := f.function(headers); !ok {
		headers, adjust = parserHead, -int64(l.Stream+llhttpAfter)
	}
	return errors.Join(
		f.add(&l.Headers, headers, adjust),
		f.add(&l.TryWrite, tryWrite, int64(base)),
		f.add(&l.TLSWrite, tlsWrite, int64(tlsBase)),
		f.add(&l.Read, emitRead, 0),
		f.add(&l.HTTP2Begin, http2Begin, 0),
		f.add(&l.HTTP2Field, http2Field, 0),
		f.add(&l.HTTP2Sent, http2Sent, 0),
		f.add(&l.HTTP2Received, http2Received, 0),
		f.add(&l.HTTP2Close, http2Close, 0),
	)
}

// flush returns where a Parser discards the target of a request whose head is not
// complete.
func (f *finder) flush() (points []Point, err error) {
	if _, ok := f.function(parserFlush); ok {
		err = f.add(&points, parserFlush, 0)
		return points, err
	}
	fields, ok := f.function(parserFields)
	field, alsoOK := f.function(parserField)
	if !ok || !alsoOK {
		return nil, fmt.Errorf("neither %s nor what it calls", parserFlush)
	}
	code, offset := f.Code(field.Name)
	for at, inst := range instructions(code) {
		if inst.Op == x86asm.CALL && target(inst, field.Address+uint64(at)) == fields.Address {
			points = append(points, Point{Name: field.Name, Offset: offset + uint64(at)})
		}
	}
	if len(points) == 0 {
		return nil, fmt.Errorf("%s does not call %s", field.Name, fields.Name)
	}
	return points, nil
}
