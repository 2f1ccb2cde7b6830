package heap

// A mapIndex has the indices of kinds by the words that refer to their maps. It has a table for each
// page with maps, so that to find those of one page takes little memory: there may be a million. The
// zero value is empty.
type mapIndex struct {
	pages   map[uint64]*[pageSlots]uint32 // by number: address / pageAlign
	others  map[uint64]int32              // of words without a slot; negative: the word does not refer to a map
	strange int                           // words that do not
}

// A slot of a page stands for slotSize bytes, in which at most one map begins, as maps are larger. It
// has the index, counted from 1, above the number of the word at which the map begins.
const (
	slotSize  = 64
	pageSlots = pageAlign / slotSize
	slotShift = 3
	slotWord  = 1<<slotShift - 1
	maxInSlot = 1<<(32-slotShift) - 2
)

// find returns the index for a word; it is negative if the word is known not to refer to a map, and ok
// is false if nothing is known of it.
func (x *mapIndex) find(word uint64) (index int32, ok bool) {
	if page := x.pages[word/pageAlign]; page != nil && word%wordSize == 1 {
		slot := page[word%pageAlign/slotSize]
		if slot != 0 && uint64(slot&slotWord) == word%slotSize/wordSize {
			return int32(slot>>slotShift) - 1, true
		}
	}
	index, ok = x.others[word]
	return index, ok
}

// add adds the index for a word that refers to a map.
func (x *mapIndex) add(word uint64, index int32) {
	if word%wordSize == 1 && index <= maxInSlot {
		page := x.pages[word/pageAlign]
		if page == nil {
			if x.pages == nil {
				x.pages = make(map[uint64]*[pageSlots]uint32)
			}
			page = new([pageSlots]uint32)
			x.pages[word/pageAlign] = page
		}
		if slot := &page[word%pageAlign/slotSize]; *slot == 0 {
			*slot = uint32(index+1)<<slotShift | uint32(word%slotSize/wordSize)
			return
		}
	}
	x.addOther(word, index)
}

// addStrange adds a word that does not refer to a map, if there is room.
func (x *mapIndex) addStrange(word uint64) {
	if x.strange < maxStrange {
		x.strange++
		x.addOther(word, -1)
	}
}

func (x *mapIndex) addOther(word uint64, index int32) {
	if x.others == nil {
		x.others = make(map[uint64]int32)
	}
	x.others[word] = index
}
