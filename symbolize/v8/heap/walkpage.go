package heap

import (
	"fmt"
	"math/bits"

	"ustack/symbolize/v8"
)

// A pageWalker walks pages from object to object.
type pageWalker struct {
	*Objects
	buffer  []byte
	anchors []uint64 // of the page, not yet passed
}

// page finds the page's objects.
func (w *pageWalker) page(p *pageObjects) error {
	p.first = ID(len(w.kind))
	var data []byte
	if !p.from || w.moving {
		data = w.read(p)
	}
	blocks := (p.Start-p.Address+uint64(len(data)))/wordSize/64 + 1
	p.starts, p.ranks = make([]uint64, blocks), make([]uint32, blocks)
	w.anchors = w.Objects.anchors[p.Address]
	for at := 0; at+wordSize <= len(data); {
		at += w.object(p, data, at)
	}
	rank := uint32(0)
	for i, block := range p.starts {
		p.ranks[i] = rank
		rank += uint32(bits.OnesCount64(block))
	}
	if len(w.kind) > maxObjects {
		return fmt.Errorf("walk the heap: more than %d objects", maxObjects)
	}
	return nil
}

// object records the object that begins at an offset in the page's data, if any, and
// returns the distance to where the next may begin.
func (w *pageWalker) object(p *pageObjects, data []byte, at int) (step int) {
	anchored, room := w.anchor(p.Start+uint64(at), len(data)-at)
	first := wordOf(data, at)
	if lost, ok := w.lostMaps[p.Start+uint64(at)]; ok {
		first = lost
	}
	index, ok := w.kindOf(first)
	switch {
	case ok:
		step = w.sizeOf(p, data[at:], index, room)
	case forwards(first) && w.moving:
		step = w.movedSize(first)
		if step > 0 && step <= room {
			return step
		}
		step = 0
	case forwards(first) && p.Space == "new":
		w.Doubts.LeftOver += uint64(room)
		return room
	}
	switch {
	case step == 0 && first == 0:
		return wordSize
	case step == 0:
		w.Doubts.Lost += wordSize
		return wordSize
	case step > room && !anchored && !p.Large():
		w.Doubts.Overlapping++
		return room
	}
	if !w.kinds.at(uint32(index)).free {
		word := (p.Start - p.Address + uint64(at)) / wordSize
		p.starts[word/64] |= 1 << (word % 64)
		w.kind = append(w.kind, uint32(index))
		w.words = append(w.words, uint32(step/wordSize))
		p.count++
	}
	return step
}

// anchor reports whether an object is known to begin at an address. It also returns how
// many of the left bytes of data an object there has room for before the next known one.
func (w *pageWalker) anchor(address uint64, left int) (anchored bool, room int) {
	for len(w.anchors) > 0 && w.anchors[0] <= address {
		anchored = w.anchors[0] == address
		w.anchors = w.anchors[1:]
	}
	if len(w.anchors) > 0 {
		left = min(left, int(w.anchors[0]-address))
	}
	return anchored, left
}

// read returns the page's objects as far as they can be read; for a large one, its head.
func (w *pageWalker) read(p *pageObjects) []byte {
	size := p.End - p.Start
	if p.Large() {
		size = min(size, v8.FormHead)
	}
	if w.buffer == nil {
		w.buffer = make([]byte, pageAlign)
	}
	n, err := w.memory.ReadAt(w.buffer[:size], p.Start)
	if err != nil {
		w.Doubts.Unreadable += size - uint64(n)
	}
	return w.buffer[:n]
}

// kindOf returns the kind of the objects whose first word is word; ok is false if word
// does not refer to a map.
func (o *Objects) kindOf(word uint64) (index int32, ok bool) {
	if word&3 != 1 {
		return 0, false
	}
	recent := &o.recent[word/wordSize%recentMaps]
	if recent.word == word {
		return recent.index, true
	}
	if index, ok = o.known.find(word); ok {
		if index >= 0 {
			recent.word, recent.index = word, index
		}
		return index, index >= 0
	}
	if o.at.page(word) == nil && o.maps.page(word) == nil {
		return 0, false
	}
	m, err := o.heap.ReadMap(word - 1)
	if err != nil {
		o.known.addStrange(word)
		return 0, false
	}
	k := objectKind{weak: weaknessOf(o.heap, m)}
	k.form, k.sized = o.heap.Form(m)
	k.free = m.Kind == "FreeSpace" || m.Kind == "Filler"
	index = o.kinds.add(k)
	o.known.add(word, index)
	return index, true
}

// mapAt returns the map at an address if an object has it; otherwise nil.
func (o *Objects) mapAt(address uint64) *v8.Map {
	index, ok := o.known.find(address + 1)
	if !ok || index < 0 {
		return nil
	}
	return o.kinds.at(uint32(index)).form.Map
}

// sizeOf returns the size in bytes of the object that begins with data; 0 if there is no
// such object. An object of unknown size ends before the next one, or after room bytes.
func (w *pageWalker) sizeOf(p *pageObjects, data []byte, index int32, room int) int {
	k := w.kinds.at(uint32(index))
	size := 0
	if k.sized {
		size = k.form.Size(data)
	} else {
		w.Doubts.Guessed++
		for size = w.heap.LeastSize(k.form.Map, data[:room]); size+wordSize <= room; size += wordSize {
			if _, ok := w.kindOf(wordOf(data, size)); ok {
				break
			}
		}
	}
	end := uint64(len(data))
	if p.Large() {
		end = p.End - p.Start
	}
	switch {
	case size%wordSize != 0:
		return 0
	case uint64(size) > end:
		w.Doubts.Overlong++
		return 0
	}
	return size
}
