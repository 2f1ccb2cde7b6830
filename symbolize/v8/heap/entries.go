package heap

import (
	"strconv"

	"ustack/symbolize/v8"
)

// Tables of collections begin with three counts, the last of which is the number of buckets
// or of places. An ordered table has its buckets before the entries.
const (
	tableCounts = 3
	bucketsAt   = arrayHeader + 2*wordSize
)

// entryWords are the words of an entry: its key, the value of a Map, and in ordered tables the
// number of the next entry.
var entryWords = map[string]int{"OrderedHashMap": 3, "OrderedHashSet": 2, "EphemeronHashTable": 2}

// entryLink returns what the table of a collection has at an offset, with the key of an entry.
func (g *Graph) entryLink(table v8.Object, offset int) Link {
	size := entryWords[table.Map.Kind]
	first := tableCounts
	if table.Map.Kind != "EphemeronHashTable" {
		buckets, err := g.heap.SmiField(table, bucketsAt)
		if err != nil || buckets < 0 || buckets > maxTable {
			return Link{ByEntry, ""}
		}
		first += buckets
	}
	at := (offset-arrayHeader)/wordSize - first
	if at < 0 {
		return Link{ByEntry, ""}
	}
	key, err := g.heap.Field(table, offset-at%size*wordSize)
	if err != nil {
		return Link{ByEntry, ""}
	}
	switch name := g.keyName(key); {
	case table.Map.Kind == "OrderedHashSet":
		return Link{ByEntry, ""}
	case at%size == 0:
		return Link{ByEntry, v8.ExactText("(key) " + name)}
	default:
		return Link{ByEntry, v8.ExactText(name)}
	}
}

// maxTable bounds the buckets of a table: an array has fewer words.
const maxTable = 1 << 27

// keyName names the key of an entry: as JavaScript writes it, or by its class.
func (g *Graph) keyName(key v8.Value) string {
	if n, ok := key.Smi(); ok {
		return strconv.Itoa(n)
	}
	o, err := g.heap.Object(key)
	if err != nil {
		return "<bad>"
	}
	switch number, ok := g.heap.Number(key); {
	case g.heap.IsString(o):
		return v8.QuoteExact(g.propertyName(key))
	case o.Map.Kind == "Symbol":
		return g.propertyName(key)
	case ok:
		return strconv.FormatFloat(number, 'g', -1, 64)
	case g.heap.IsReceiver(o):
		class, _ := g.heap.Class(o) // "" if it cannot be read
		return class + " " + strconv.FormatUint(uint64(key), 16)
	}
	return ""
}
