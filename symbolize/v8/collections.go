package v8

import (
	"fmt"
	"slices"
)

// An Entry is an entry of a Map, a Set, or their weak forms. In a set Value is 0.
type Entry struct{ Key, Value Value }

// A table of an ordered collection is a FixedArray: the numbers of entries, of
// removed entries and of buckets; then the buckets, and the entries in insertion
// order. An entry ends with the number of the next entry in its bucket.
const (
	orderedElements = 0
	orderedDeleted  = 1
	orderedBuckets  = 2
	orderedPrefix   = 3
	mapEntry        = 3 // words
	setEntry        = 2
	ephemeronEntry  = 2
)

// Entries visits the entries of a JSMap, JSSet, JSWeakMap or JSWeakSet until
// visit returns false: those of a JSMap or JSSet in insertion order.
func (h *Heap) Entries(o Object, visit func(Entry) bool) error {
	switch o.Map.Kind {
	case "JSMap":
		return h.orderedEntries(o, mapEntry, visit)
	case "JSSet":
		return h.orderedEntries(o, setEntry, visit)
	case "JSWeakMap", "JSWeakSet":
		return h.weakEntries(o, visit)
	}
	return fmt.Errorf("read collection at %#x: it is a %s", o.Address, o.Map.Kind)
}

func (h *Heap) orderedEntries(o Object, size int, visit func(Entry) bool) error {
	table, length, err := h.tableOf(o, o.Map.Kind)
	if err != nil {
		return err
	}
	var counts [orderedPrefix]int
	for i := range counts {
		if counts[i], err = h.SmiField(table, arrayFirst+i*wordSize); err != nil {
			return err
		}
	}
	used, first := counts[orderedElements]+counts[orderedDeleted], orderedPrefix+counts[orderedBuckets]
	if slices.Min(counts[:]) < 0 || slices.Max(counts[:]) > length || first+used*size > length {
		return fmt.Errorf("read collection at %#x: %d entries in %d words", o.Address, used, length)
	}
	for at, end := first, first+used*size; at < end; {
		count := min(maxBlock/size*size, end-at)
		words, err := h.words(table.Address+arrayFirst+uint64(at)*wordSize, count)
		for ; len(words) >= size; words = words[size:] {
			e := Entry{Key: words[0]}
			if size == mapEntry {
				e.Value = words[1]
			}
			if !h.isHole(e.Key) && !visit(e) {
				return nil
			}
		}
		if err != nil {
			return fmt.Errorf("read collection at %#x: %w", o.Address, err)
		}
		at += count
	}
	return nil
}

// weakEntries visits the entries whose keys have not been collected.
func (h *Heap) weakEntries(o Object, visit func(Entry) bool) error {
	table, _, err := h.tableOf(o, "JSWeakCollection")
	if err != nil {
		return err
	}
	return h.tableEntries(table, ephemeronEntry, func(words []Value) bool {
		e := Entry{Key: words[0]}
		if o.Map.Kind == "JSWeakMap" {
			e.Value = words[1]
		}
		return visit(e)
	})
}

// tableOf returns a collection's table and its length in words.
func (h *Heap) tableOf(o Object, class string) (table Object, length int, err error) {
	v, err := h.FieldOf(o, class, "table")
	if err != nil {
		return Object{}, 0, err
	}
	if table, err = h.Object(v); err != nil {
		return Object{}, 0, fmt.Errorf("read collection at %#x: %w", o.Address, err)
	}
	length, err = h.SmiField(table, arrayLength)
	if err != nil || length < 0 || length > maxElements {
		return Object{}, 0, fmt.Errorf("read collection at %#x: a table of %d words: %w", o.Address, length, err)
	}
	return table, length, nil
}
