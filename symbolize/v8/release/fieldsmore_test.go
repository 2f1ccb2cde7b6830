package release_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// setField sets the offset of a field.
func (m *measurement) setField(name string, offset int) {
	m.release.Fields[name] = uint16(offset)
	m.measured["Fields."+name] = true
}

// common returns what find returns for each of several objects, which must be one.
// In their descriptions NN is the number of the object.
func common[T comparable](m *measurement, object string, find func(v tagged, text string, data []byte, number int) ([]T, error)) (one T, err error) {
	p := m.probe("")
	var candidates []T
	for number := 1; number <= samples; number++ {
		v, text, err := p.find(strings.ReplaceAll(object, "NN", fmt.Sprint(number)))
		if err != nil {
			return one, err
		}
		data, err := p.object(v, text)
		if err != nil {
			return one, err
		}
		found, err := find(v, text, data, number)
		if err != nil {
			return one, err
		}
		if number == 1 {
			candidates = found
		}
		candidates = slices.DeleteFunc(candidates, func(c T) bool { return !slices.Contains(found, c) })
	}
	if len(candidates) != 1 {
		return one, fmt.Errorf("%s: %v are possible", object, candidates)
	}
	return candidates[0], nil
}

// words returns the words of an object behind its map, by offset.
func words(data []byte) map[int]uint64 {
	all := map[int]uint64{}
	for o := 8; o+8 <= len(data); o += 8 {
		all[o] = binary.LittleEndian.Uint64(data[o:])
	}
	return all
}

// measureBuffers sets how an ArrayBuffer leads to its bytes: by its extension and
// the extension's backing store, which begins with their address.
func measureBuffers(m *measurement) error {
	type path struct{ extension, backing, length int }
	p := m.probe("")
	found, err := common(m, "require('vm').runInNewContext('new ArrayBuffer(8 * NN, {maxByteLength: 4096 * NN})')",
		func(_ tagged, text string, data []byte, number int) (paths []path, err error) {
			start, err := p.step(nil, text, "- backing_store:")
			if err != nil {
				return nil, err
			}
			for extension, e := range words(data) {
				for backing := 0; backing < 32; backing += 8 {
					store, err := p.word(e + uint64(backing))
					if err != nil {
						break // not an address
					}
					if bytes, err := p.read(store, 64); err == nil && binary.LittleEndian.Uint64(bytes) == uint64(start) {
						for length, n := range words(bytes) {
							if n == uint64(8*number) {
								paths = append(paths, path{extension, backing, length})
							}
						}
					}
				}
			}
			return paths, nil
		})
	if err != nil {
		return err
	}
	m.setField("JSArrayBuffer.extension", found.extension)
	m.setField("ArrayBufferExtension.backing", found.backing)
	m.setField("BackingStore.byte_length", found.length)
	return nil
}

// measureDates sets where a Date has its number.
func measureDates(m *measurement) error {
	type place struct {
		offset  int
		unboxed bool
	}
	p := m.probe("")
	found, err := common(m, "new Date(1e12 + NN)", func(_ tagged, _ string, data []byte, number int) (places []place, err error) {
		want := math.Float64bits(1e12 + float64(number))
		for offset, w := range words(data) {
			if w == want {
				places = append(places, place{offset, true})
			} else if p.kind(p, tagged(w)) == "HEAP_NUMBER_TYPE" {
				if bits, err := p.word(w - 1 + 8); err == nil && bits == want {
					places = append(places, place{offset, false})
				}
			}
		}
		return places, nil
	})
	if err != nil {
		return err
	}
	m.setField("JSDate.value", found.offset)
	m.set("Objects.DatesUnboxed", found.unboxed)
	return nil
}

// measureSymbols sets where a symbol has its flags, by one that Symbol.for made.
func measureSymbols(m *measurement) error {
	const bitOfRegistered, withOwners = 1 << 2, 1 << 3
	type place struct {
		offset int
		owners bool
	}
	found, err := common(m, "[0, Symbol(), Symbol.for('x'), Symbol()][NN]", func(_ tagged, _ string, data []byte, number int) (places []place, err error) {
		for offset := 8; offset < len(data); offset += 4 {
			flags := binary.LittleEndian.Uint32(data[offset:])
			if number != 2 && flags == 0 {
				places = append(places, place{offset, false}, place{offset, true})
			} else if number == 2 && (flags == bitOfRegistered || flags == withOwners) {
				places = append(places, place{offset, flags == withOwners})
			}
		}
		return places, nil
	})
	if err != nil {
		return err
	}
	m.setField("Symbol.flags", found.offset)
	m.set("Objects.SymbolOwners", found.owners)
	return nil
}

// measureBytecodes sets where a BytecodeArray has its bytecodes and the table of
// their source positions, whose address V8 does not print.
func measureBytecodes(m *measurement) error {
	p := m.probe("")
	const object = "(f => { try { f() } catch (e) { e.stack } return f })(eval('(function () { ' + 'keep.x = 1; '.repeat(20 * NN) + 'throw Error(NN) })')) > - bytecode:"
	start, err := common(m, object, func(v tagged, text string, _ []byte, _ int) ([]int, error) {
		first, err := p.step(nil, text, `(0x[0-9a-f]+) @\s+0 :`)
		return []int{int(first - v + 1)}, err
	})
	table, err2 := common(m, object, func(_ tagged, text string, data []byte, _ int) (offsets []int, err error) {
		size, err := p.step(nil, text, `Source Position Table \(size =`)
		for offset, w := range words(data[:min(len(data), start)]) {
			if length, err := p.word(w - 1 + 8); err == nil && tagged(length) == size && strings.HasSuffix(p.kind(p, tagged(w)), "BYTE_ARRAY_TYPE") {
				offsets = append(offsets, offset)
			}
		}
		return offsets, err
	})
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	m.setField("BytecodeArray.data", start)
	m.setField("BytecodeArray.source_position_table", table)
	m.set("Sizes.BytecodeArray", start)
	return nil
}
