package v8

// A Value is a tagged word: a small integer (Smi), or a reference to an object in
// the heap.
type Value uint64

// Smi returns the small integer that v is.
func (v Value) Smi() (int, bool) { return int(int64(v) >> 32), v&(1<<32-1) == 0 }

// Small returns a small integer; n must fit into 32 bits.
func Small(n int) Value { return Value(uint64(n) << 32) }

// IsObject reports whether v is a reference to an object, weak ones included.
func (v Value) IsObject() bool { return v&heapTag != 0 && v != cleared }

// IsWeak reports whether v is a reference that does not keep its object alive.
func (v Value) IsWeak() bool { return v&heapTagMask == heapTagMask && v != cleared }

// Strong returns v as a strong reference.
func (v Value) Strong() Value { return v &^ (heapTagMask - heapTag) }

// Address returns the address of the object that v refers to.
func (v Value) Address() uint64 { return uint64(v) &^ heapTagMask }

// cleared is a weak reference to an object that has been collected.
const cleared Value = heapTagMask

// Ref returns the reference to the object at an address.
func Ref(address uint64) Value { return Value(address | heapTag) }
