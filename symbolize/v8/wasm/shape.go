package wasm

import (
	"cmp"
	"encoding/binary"
	"slices"

	"ustack/symbolize"
	"ustack/symbolize/v8"
)

// A std::map of libstdc++ (bits/stl_tree.h) has a header of 40 bytes: colour,
// root, leftmost, rightmost, number of entries. A node has colour, parent, left,
// right, then the key and the value.
const (
	treeBytes = 40
	nodeKey   = 4 // words of a node before its key
	nodeWords = nodeKey + 3
)

// A treeNode is a node with the first words of its value.
type treeNode struct {
	parent, left, right uint64
	key                 uint64
	values              [2]uint64
}

func readNode(mem v8.Memory, at uint64) (treeNode, error) {
	var v [nodeWords]uint64
	err := v8.ReadWords(mem, at, v[:])
	return treeNode{v[1], v[2], v[3], v[4], [2]uint64{v[5], v[6]}}, err
}

// floor returns the node with the greatest key at or below key, in the map whose
// header is at an address; the zero node if none exists.
func floor(mem v8.Memory, header, key uint64) (treeNode, error) {
	at, err := v8.ReadWord(mem, header+wordSize)
	if err != nil {
		return treeNode{}, err
	}
	var best treeNode
	for depth := 0; at != 0; depth++ {
		if depth > maxTreeDepth {
			return treeNode{}, errShape
		}
		n, err := readNode(mem, at)
		if err != nil {
			return treeNode{}, err
		}
		if n.key <= key {
			best, at = n, n.right
		} else {
			at = n.left
		}
	}
	return best, nil
}

// isTree reports whether words are the header, at an address, of a map, and
// returns the map's leftmost node.
func isTree(mem v8.Memory, words []uint64, at uint64) (leftmost uint64, ok bool) {
	root, first, last, count := words[1], words[2], words[3], words[4]
	if root == 0 || first == 0 || last == 0 || count == 0 || (root|first|last)%wordSize != 0 {
		return 0, false
	}
	parent, err := v8.ReadWord(mem, root+wordSize)
	return first, err == nil && parent == at
}

// isEmptyTree reports whether words are the header of an empty map.
func isEmptyTree(words []uint64, at uint64) bool {
	return words[1] == 0 && words[2] == at && words[3] == at && words[4] == 0
}

const pageMask = 1<<12 - 1

// findRegions returns the address of the map of code spaces in V8's global state:
// the map from a page address to another page address and to a module. It returns
// 0 if it finds none, as when no module is loaded.
func findRegions(mem v8.Memory, state uint64) (uint64, error) {
	var words [maxState / wordSize]uint64
	if err := v8.ReadWords(mem, state, words[:]); err != nil {
		return 0, err
	}
	for i := 0; i+treeBytes/wordSize <= len(words); i++ {
		offset := uint64(i * wordSize)
		first, ok := isTree(mem, words[i:], state+offset)
		if !ok {
			continue
		}
		n, err := readNode(mem, first)
		end := n.values[0]
		if err == nil && n.key&pageMask == 0 && end&pageMask == 0 && n.key < end && end-n.key <= maxRegion && n.values[1]%wordSize == 0 {
			return offset, nil
		}
	}
	return 0, nil
}

// A WasmCode begins with its NativeModule and the address of its instructions in
// V8 9.4 to 14.6.
const (
	codeModule       = 0
	codeInstructions = 8
)

// Bounds on the offsets of fields: 0x138 to 0x1a8 in a NativeModule, up to 0x78
// in a WasmCode.
const (
	maxOwned      = 0x400
	codeBytes     = 0x80
	maxSampled    = 64        // pieces of code from which the shape is derived
	maxFunctions  = 1_000_000 // of a module
	firstField    = 0x10
	noFunction    = -1 // index of code that does not belong to a function
	kindJumpTable = 3  // lowest kind of code of a jump table: 3 up to V8 13.6, then 4
)

// A shape has the offsets, in bytes, of V8's data about WebAssembly code.
type shape struct {
	lookup uint64 // global state: header of the map of code spaces; 0: not known yet
	known  bool   // the rest
	owned  uint64 // NativeModule: header of the map of its code
	size   int    // WasmCode: i32
	index  int    // WasmCode: i32
	flags  int    // WasmCode: u8: its kind in the low bits, then its tier in two, then others
	table  int    // kind of jump tables
	kind   int    // bits of the kind: Layout.WasmKindBits
}

// code reads the WasmCode at an address; fits is false if its fields cannot be where
// the shape has them.
func (s *shape) code(mem v8.Memory, at uint64) (c Code, fits bool, err error) {
	b := make([]byte, codeBytes)
	if _, err := mem.ReadAt(b, at); err != nil {
		return Code{}, false, err
	}
	e := codeEntry{b}
	c = Code{Module: e.word(codeModule), Start: e.word(codeInstructions), Index: e.i32(s.index)}
	c.End = c.Start + uint64(max(e.i32(s.size), 0))
	fits = s.fits(e, s.flags)
	if kind, tier := s.split(b[s.flags]); kind == 0 && c.Index >= 0 {
		c.Tier = tier
	} else {
		c.Index = noFunction
	}
	return c, fits, nil
}

// fits reports whether e may have its flags at an offset: a function has a tier, and
// a jump table has its kind and no function.
func (s *shape) fits(e codeEntry, at int) bool {
	flags, index := e.bytes[at], e.i32(s.index)
	switch kind, tier := s.split(flags); kind {
	case 0:
		return index >= 0 && tier != symbolize.NoTier
	case s.table:
		return index == noFunction && int(flags) == s.table
	default: // a wrapper, with or without a function's number
		return kind < s.table
	}
}

// split returns the kind of code, 0 for a function's, and its tier.
func (s *shape) split(flags byte) (kind int, tier symbolize.Tier) {
	switch flags >> s.kind & 3 {
	case 1:
		tier = symbolize.Liftoff
	case 2:
		tier = symbolize.Turbofan
	}
	return int(flags) & (1<<s.kind - 1), tier
}

// A codeEntry is the memory of a WasmCode.
type codeEntry struct{ bytes []byte }

func (e codeEntry) i32(at int) int { return int(int32(binary.LittleEndian.Uint32(e.bytes[at:]))) }
func (e codeEntry) sameCode(f codeEntry) bool {
	return e.word(codeInstructions) == f.word(codeInstructions)
}
func (e codeEntry) word(at int) uint64 { return binary.LittleEndian.Uint64(e.bytes[at:]) }

// findShape derives the shape from the code of a module, including the WasmCode at an
// address unless that is 0. The first two pieces in a code space are jump tables: they
// are adjacent, do not belong to a function and have a kind of their own, which
// distinguishes the fields.
func findShape(mem v8.Memory, module, code uint64, kindBits int) (shape, error) {
	var words [maxOwned / wordSize]uint64
	if err := v8.ReadWords(mem, module, words[:]); err != nil {
		return shape{}, err
	}
	for i := 0; i+(treeBytes+vectorBytes)/wordSize <= len(words); i++ {
		offset := uint64(i * wordSize)
		first, ok := isTree(mem, words[i:], module+offset)
		if !ok && !isEmptyTree(words[i:], module+offset) {
			continue
		}
		entries, ok := sampleTree(mem, first, module)
		fresh, ok2 := sampleVector(mem, words[i+treeBytes/wordSize:], module)
		if !ok || !ok2 || len(entries)+len(fresh) < 3 {
			continue
		}
		entries = append(entries, fresh...)
		if e, ok := readEntry(mem, code, module); ok && !slices.ContainsFunc(entries, e.sameCode) {
			entries = append(entries, e)
		}
		slices.SortFunc(entries, func(a, b codeEntry) int {
			return cmp.Compare(a.word(codeInstructions), b.word(codeInstructions))
		})
		s := shape{owned: offset, kind: kindBits}
		if s.fields(entries) {
			return s, nil
		}
	}
	return shape{}, errShape
}

// sampleTree reads the first pieces of code in a map of them, starting at its
// leftmost node; ok is false if it is another kind of map.
func sampleTree(mem v8.Memory, node, module uint64) (entries []codeEntry, ok bool) {
	for len(entries) < maxSampled && node != 0 {
		n, err := readNode(mem, node)
		if err != nil {
			return nil, false
		}
		e, ok := readEntry(mem, n.values[0], module)
		if !ok || e.word(codeInstructions) != n.key {
			return nil, false
		}
		entries = append(entries, e)
		if node, err = successor(mem, node, n); err != nil {
			return nil, false
		}
	}
	return entries, true
}

// vectorBytes is the size of a std::vector: begin, end, and end of capacity.
const vectorBytes = 24

// sampleVector reads the first pieces of code in a vector of pointers to them; ok
// is false if it is something else.
func sampleVector(mem v8.Memory, v []uint64, module uint64) (entries []codeEntry, ok bool) {
	if v[1] < v[0] || v[2] < v[1] || (v[0]|v[1])%wordSize != 0 {
		return nil, false
	}
	pointers := make([]uint64, min((v[1]-v[0])/wordSize, maxSampled))
	if v8.ReadWords(mem, v[0], pointers) != nil {
		return nil, false
	}
	for _, p := range pointers {
		e, ok := readEntry(mem, p, module)
		if !ok {
			return nil, false
		}
		entries = append(entries, e)
	}
	return entries, true
}

// readEntry reads a WasmCode of the module; ok is false if it is not one.
func readEntry(mem v8.Memory, at, module uint64) (e codeEntry, ok bool) {
	e = codeEntry{make([]byte, codeBytes)}
	_, err := mem.ReadAt(e.bytes, at)
	return e, err == nil && e.word(codeModule) == module
}

// successor returns the next node in order, 0 after the last.
func successor(mem v8.Memory, at uint64, n treeNode) (uint64, error) {
	if n.right != 0 {
		next := n.right
		for range maxTreeDepth {
			child, err := readNode(mem, next)
			if err != nil || child.left == 0 {
				return next, err
			}
			next = child.left
		}
		return 0, errShape
	}
	for range maxTreeDepth {
		parent, err := readNode(mem, n.parent)
		if err != nil || parent.parent == at { // the header, whose parent is the root
			return 0, err
		}
		if parent.left == at {
			return n.parent, nil
		}
		at, n = n.parent, parent
	}
	return 0, errShape
}

// fields finds the fields of entries, which are sorted by address.
func (s *shape) fields(entries []codeEntry) bool {
	s.size = firstOffset(func(at int) bool { return isSize(entries, at) })
	s.index = firstOffset(func(at int) bool { return isIndex(entries, at) })
	if s.size == 0 || s.index == 0 {
		return false
	}
	s.flags = s.findFlags(entries)
	s.known = s.flags != 0
	return s.known
}

// firstOffset returns the first offset of four bytes in a WasmCode for which right is
// true; 0 if none.
func firstOffset(right func(at int) bool) int {
	for at := firstField; at+4 <= codeBytes; at += 4 {
		if right(at) {
			return at
		}
	}
	return 0
}

// isSize reports whether at is the offset of the size: each piece of code ends
// before the next begins, and the first exactly where the second begins.
func isSize(entries []codeEntry, at int) bool {
	for i, e := range entries {
		size := e.i32(at)
		if size <= 0 {
			return false
		}
		if i+1 == len(entries) {
			break
		}
		room := entries[i+1].word(codeInstructions) - e.word(codeInstructions)
		if uint64(size) > room || i == 0 && uint64(size) != room {
			return false
		}
	}
	return true
}

// isIndex reports whether at is the offset of the index: all pieces but the jump
// tables have a function's number there, or none.
func isIndex(entries []codeEntry, at int) bool {
	functions := 0
	for i, e := range entries {
		index := e.i32(at)
		switch {
		case index < noFunction || index >= maxFunctions:
			return false
		case i < 2 && index != noFunction:
			return false
		case index >= 0:
			functions++
		}
	}
	return functions > 0
}

// findFlags returns the offset of the flags: the first two pieces, which are jump
// tables, have nothing but their kind there, at least one function its tier, and all
// fit. It returns 0 if there is none. A byte of a pointer may look like flags by chance,
// but the flags follow words and are the first of their own four bytes.
func (s *shape) findFlags(entries []codeEntry) int {
	return firstOffset(func(at int) bool {
		s.table = int(entries[0].bytes[at])
		if s.table < kindJumpTable || s.table > kindJumpTable+1 || int(entries[1].bytes[at]) != s.table {
			return false
		}
		isFunction := func(e codeEntry) bool {
			kind, _ := s.split(e.bytes[at])
			return kind == 0
		}
		misfit := func(e codeEntry) bool { return !s.fits(e, at) }
		return slices.ContainsFunc(entries, isFunction) && !slices.ContainsFunc(entries, misfit)
	})
}
