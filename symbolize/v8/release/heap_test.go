package release_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// heapSize is how many bytes of the C++ Heap are searched.
const heapSize = 4096

// measureGCCount sets where the Heap counts collections: the count is incremented
// by each, of the new space or of all.
func measureGCCount(m *measurement) error {
	p := m.probe("")
	h, err := m.header("{}", m.release.Pages.MetadataApart)
	if err != nil {
		return err
	}
	heap := binary.LittleEndian.Uint64(h.fields[m.release.Pages.Heap:])
	before, err := p.read(heap, heapSize)
	if err != nil {
		return err
	}
	candidates := map[int]bool{}
	for o := 0; o < heapSize; o += 4 {
		candidates[o] = true
	}
	for i, collect := range []string{"gc({type: 'minor'})", "gc()", "gc({type: 'minor'})"} {
		if _, err := p.evaluate(collect); err != nil {
			return err
		}
		now, err := p.read(heap, heapSize)
		if err != nil {
			return err
		}
		for o := range candidates {
			if binary.LittleEndian.Uint32(now[o:]) != binary.LittleEndian.Uint32(before[o:])+uint32(i)+1 {
				delete(candidates, o)
			}
		}
	}
	if len(candidates) == 0 {
		return fmt.Errorf("no count of collections in the Heap")
	}
	// The Heap has the count at its last statistics, too, at a higher offset.
	m.set("Isolate.GCCount", slices.Min(slices.Collect(maps.Keys(candidates))))
	return nil
}

// measureScopePositions sets in which words of a ScopeInfo positions are, if not
// after the names of its variables, whose number differs here.
func measureScopePositions(m *measurement) error {
	const (
		sources = `['', '(function () { let x = 1; return () => x })', '(function () { let x = 1, y = 2; return () => x + y })', '(function () { let x = 1, y = 2, z = 3; return () => x + y + z })'][NN]`
		object  = `(f => (f(), f))(eval(` + sources + `)) > - shared_info: > ~SCOPE_INFO_TYPE`
		start   = len("(function ")
		fields  = 8 // where words are counted from
	)
	p := m.probe("")
	found, err := common(m, object, func(_ tagged, _ string, data []byte, number int) (words []int, err error) {
		length, err := p.number(strings.ReplaceAll(sources, "NN", fmt.Sprint(number)) + ".length")
		for o := fields; o+16 <= len(data); o += 8 {
			if binary.LittleEndian.Uint64(data[o:]) == uint64(start)<<32 && binary.LittleEndian.Uint64(data[o+8:]) == (length-1)<<32 {
				words = append(words, (o-fields)/8)
			}
		}
		return words, err
	})
	if err != nil {
		found = 0
	}
	m.set("Scopes.Positions", found)
	return nil
}

// measureFreeSpace sets how a FreeSpace counts its length, by what is behind it.
func measureFreeSpace(m *measurement) error {
	if _, err := m.probe("").evaluate("gc()"); err != nil {
		return err
	}
	var bytes, words int
	for _, object := range []string{"function () {} > - map:", "function () {} > - shared_info:", "keep.modules[1] > - module:", "process"} {
		h, err := m.header(object, false)
		if err != nil {
			return err
		}
		inBytes, inWords := m.freeSpaces(h.page)
		bytes, words = bytes+inBytes, words+inWords
	}
	if bytes == words {
		return fmt.Errorf("free spaces count %d times bytes, %d times words", bytes, words)
	}
	m.set("Sizes.FreeSpaceInWords", words > bytes)
	return nil
}

// freeSpaces returns how many free spaces of a page end before another object if
// their length is in bytes, and how many if it is in words. Pages that V8 has
// trimmed are left out.
func (m *measurement) freeSpaces(address uint64) (inBytes, inWords int) {
	const header, shortest, many = 1024, 3, 32
	p := m.probe("")
	page, err := p.read(address, pageOffset+1)
	if err != nil {
		return 0, 0
	}
	word := func(o int) uint64 { return binary.LittleEndian.Uint64(page[o:]) }
	isObject := func(o int) bool {
		return o == len(page) || o < len(page) && o%8 == 0 && p.kind(p, tagged(word(o))) == "MAP_TYPE"
	}
	for o := header; o+16 <= len(page) && inBytes+inWords < many; o += 8 {
		length := int(word(o+8) >> 32)
		if word(o)&3 != 1 || uint32(word(o+8)) != 0 || length < shortest || p.kind(p, tagged(address+uint64(o)+1)) != "FREE_SPACE_TYPE" {
			continue
		}
		bytes, words := isObject(o+length), isObject(o+8*length)
		if bytes && !words {
			inBytes++
		} else if words && !bytes {
			inWords++
		}
	}
	return inBytes, inWords
}
