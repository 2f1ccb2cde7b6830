package nodehttp

import (
	"iter"
	"slices"
	"strings"
	"testing"

	"ustack/symbolize/elfsym"
	"ustack/testdata/nodetest"
)

// A lacking Binary has no symbol whose name contains a text.
type lacking struct {
	Binary
	text string
}

func (l lacking) Symbols(prefixes ...string) iter.Seq[elfsym.Symbol] {
	return func(yield func(elfsym.Symbol) bool) {
		for s := range l.Binary.Symbols(prefixes...) {
			if !strings.Contains(s.Name, l.text) && !yield(s) {
				return
			}
		}
	}
}

func (l lacking) Code(symbol string) (code []byte, offset uint64) {
	if strings.Contains(symbol, l.text) {
		return nil, 0
	}
	return l.Binary.Code(symbol)
}

func (l lacking) Address(symbol string) (address uint64, ok bool) {
	if strings.Contains(symbol, l.text) {
		return 0, false
	}
	return l.Binary.Address(symbol)
}

// TestWhatIsMissingIsRefused leaves out each symbol that is looked for: there is an error, or
// another will do, by which the same offsets are found.
func TestWhatIsMissingIsRefused(t *testing.T) {
	for version, optional := range map[string][]string{
		"18.20.8": {parserBegin22, parserHead20, parserFlush, parserLists},
		"22.23.3": {parserBegin22, parserHead20, parserHead, parserField, parserFields, parserLists},
	} {
		b := open(t, nodetest.NodeFor(t, version, "amd64"))
		want, err := Find(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range append([]string{idleTime, hrtime, handleClose, tcpConnect, pipeConnect}, parts...) {
			l, err := Find(lacking{b, text})
			if isOptional := slices.Contains(optional, text); isOptional != (err == nil) {
				t.Errorf("%s without %s: err = %v, want one: %t", version, text, err, !isOptional)
			} else if err == nil && (l.Offsets != want.Offsets || l.Pauses != (text != parserLists)) {
				t.Errorf("%s without %s: offsets = %+v, want %+v", version, text, l.Offsets, want.Offsets)
			}
		}
	}
}

// A renamed Binary has a symbol under another name.
type renamed struct {
	Binary
	from, to string
}

func (r renamed) Symbols(prefixes ...string) iter.Seq[elfsym.Symbol] {
	return func(yield func(elfsym.Symbol) bool) {
		for s := range r.Binary.Symbols(prefixes...) {
			if s.Name == r.from {
				s.Name = r.to
			}
			if !yield(s) {
				return
			}
		}
	}
}

func (r renamed) Code(symbol string) (code []byte, offset uint64) {
	if symbol == r.to {
		symbol = r.from
	}
	return r.Binary.Code(symbol)
}

// TestThunksThatContradictAreRefused gives the bases of classes other places, which must be
// those that the code has.
func TestThunksThatContradictAreRefused(t *testing.T) {
	b := open(t, nodetest.NodeFor(t, "22.23.3", "amd64"))
	f := &finder{Binary: b, found: make(map[string][]elfsym.Symbol)}
	f.index()
	for _, part := range []string{parserRead, tlsRead} {
		s, _, err := f.thunk(part)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(strings.TrimPrefix(s.Name, thunk), "_")
		_, err = Find(renamed{b, s.Name, thunk + "16_" + rest})
		if err == nil || !strings.Contains(err.Error(), "is not built as expected") {
			t.Errorf("%s: err = %v, want that node is not built as expected", part, err)
		}
	}
}

// TestStoresAreFollowed has code as compilers make it of Parser::on_message_begin(), and code
// of which nothing must be derived.
func TestStoresAreFollowed(t *testing.T) {
	const address, clock = 0x1000, 0x2000
	for name, test := range map[string]struct {
		code         []byte
		started, url uint64
	}{
		"as usual": {[]byte{
			0xe8, 0xfb, 0x0f, 0, 0, // call 0x2000
			0x48, 0x89, 0x83, 0x50, 7, 0, 0, // mov %rax,0x750(%rbx)
			0x80, 0xbb, 0xd0, 6, 0, 0, 0, // cmpb $0,0x6d0(%rbx)
			0x48, 0xc7, 0x83, 0xc8, 6, 0, 0, 0, 0, 0, 0, // movq $0,0x6c8(%rbx)
			0x48, 0xc7, 0x83, 0xd8, 6, 0, 0, 0, 0, 0, 0, // movq $0,0x6d8(%rbx)
		}, 0x750, 0x6c8},
		"another call": {[]byte{
			0xe8, 0xfb, 0x1f, 0, 0, // call 0x3000
			0x48, 0x89, 0x83, 0x50, 7, 0, 0,
		}, 0, 0},
		"no comparison": {[]byte{
			0x48, 0xc7, 0x83, 0xc8, 6, 0, 0, 0, 0, 0, 0,
			0x48, 0xc7, 0x83, 0xd8, 6, 0, 0, 0, 0, 0, 0,
		}, 0, 0},
		"one word": {[]byte{
			0x80, 0xbb, 0xd0, 6, 0, 0, 0,
			0x48, 0xc7, 0x83, 0xc8, 6, 0, 0, 0, 0, 0, 0,
		}, 0, 0},
		"on the stack": {[]byte{
			0xe8, 0xfb, 0x0f, 0, 0,
			0x48, 0x89, 0x44, 0x24, 8, // mov %rax,8(%rsp)
		}, 0, 0},
		"nothing": {nil, 0, 0},
	} {
		if started, url := storesOf(test.code, address, clock); started != test.started || url != test.url {
			t.Errorf("%s: started, url = %#x, %#x, want %#x, %#x", name, started, url, test.started, test.url)
		}
	}
}

// TestCollectionsThatAreNotFoundAreRefused leaves out what collections need.
func TestCollectionsThatAreNotFoundAreRefused(t *testing.T) {
	for version, all := range map[string][]string{
		"18.20.8": {heapPrologue, heapCollect, heapCollector},
		"22.23.3": {heapPrologue, heapEpilogue, heapCollector},
	} {
		b := open(t, nodetest.NodeFor(t, version, "amd64"))
		for _, text := range all {
			if c, err := FindCollections(lacking{b, text}); err == nil {
				t.Errorf("%s without %s: %+v, want an error", version, text, c)
			}
		}
	}
}

// FuzzCode derives from whatever a file may have as a function.
func FuzzCode(f *testing.F) {
	f.Add([]byte{0x48, 0x8d, 0x5f, 0xb0}) // lea -0x50(%rdi),%rbx
	f.Add([]byte{0xe8, 0xfb, 0x0f, 0, 0, 0x48, 0x89, 0x83, 0x50, 7, 0, 0})
	f.Fuzz(func(t *testing.T, code []byte) {
		storesOf(code, 0x1000, 0x2000)
		loads(code, 0, LoopMetrics)
		if n, ok := subtracted(code); ok && n == 0 {
			t.Error("nothing is subtracted")
		}
	})
}
