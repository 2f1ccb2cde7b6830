package v8

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"

	"ustack/symbolize/elfsym"
)

// metadataPrefix starts the name of each variable that V8 provides for debuggers.
const metadataPrefix = "v8dbg_"

// maxMetadata bounds the number of these variables; V8 has about 530.
const maxMetadata = 1 << 14

// metadata has the values of a binary's v8dbg_ variables, by name without the
// prefix.
type metadata map[string]int32

// readMetadata reads the v8dbg_ variables of f. Those in .bss are constants too: zero.
func readMetadata(f *elfsym.File) (metadata, error) {
	m := metadata{}
	var word [4]byte
	for s := range f.Symbols(metadataPrefix) {
		if len(m) == maxMetadata {
			break
		}
		if _, err := f.ReadAt(word[:], s.Address); err != nil {
			return nil, fmt.Errorf("read %s: %w", s.Name, err)
		}
		m[strings.TrimPrefix(s.Name, metadataPrefix)] = int32(binary.LittleEndian.Uint32(word[:]))
	}
	return m, nil
}

// Constant returns the value of a v8dbg_ variable, whose name is without that prefix.
func (b *Binary) Constant(name string) (value int32, ok bool) {
	value, ok = b.metadata[name]
	return value, ok
}

// lookup returns the value of the first of names that the metadata has. A name
// that ends in "__" matches any name with that prefix: the suffix is a C++ type,
// which changes between versions of V8.
func (m metadata) lookup(names ...string) (int32, bool) {
	for _, name := range names {
		if !strings.HasSuffix(name, "__") {
			if v, ok := m[name]; ok {
				return v, true
			}
			continue
		}
		if v, _, ok := m.span(name); ok {
			return v, true
		}
	}
	return 0, false
}

// span returns the least and the greatest value of the names that start with prefix.
func (m metadata) span(prefix string) (least, greatest int32, ok bool) {
	for name, v := range m {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if !ok {
			least, greatest, ok = v, v, true
		}
		least, greatest = min(least, v), max(greatest, v)
	}
	return least, greatest, ok
}

// frameTypes returns the labels of the typed frames: "entry" for EntryFrame,
// "builtin exit" for BuiltinExitFrame.
func (m metadata) frameTypes() map[uint8]string {
	labels := map[uint8]string{}
	for name, v := range m {
		class, ok := strings.CutPrefix(name, "frametype_")
		if ok && v > 0 && v <= maxFrameType {
			labels[uint8(v)] = words(strings.TrimSuffix(class, "Frame"))
		}
	}
	return labels
}

// maxFrameType bounds a frame's type; V8 has about 35.
const maxFrameType = 127

// words returns a name in CamelCase as words in lower case: "js to wasm" for JsToWasm.
func words(camel string) string {
	camel = strings.ReplaceAll(camel, "JavaScript", "Javascript")
	camel = wordStart.ReplaceAllString(camel, "$1$3 $2$4")
	return strings.ToLower(camel)
}

// wordStart matches where a word starts: after a lower-case letter, or at the
// last of several capitals.
var wordStart = regexp.MustCompile(`([a-z])([A-Z])|([A-Z])([A-Z][a-z])`)
