package v8

import (
	"encoding/binary"
	"fmt"
)

// A Form is how the objects of one map lie in memory: how long each is, and
// which of its words may be references.
type Form struct {
	Map    *Map
	Tagged int // bytes from the start, the map's included, that may hold references; below zero: all

	shape shape
}

// FormHead is how many bytes at an object's start say how long it is.
const FormHead = 48

// A shape is how objects lie in memory whose size is not in their map: a header,
// then units.
type shape struct {
	header int // bytes
	unit   int // bytes
	count  func(head []byte) int
	tagged int // as Form.Tagged
	align  int // bytes; a word if 0
}

// allTagged is a shape's tagged where no part is raw.
const allTagged = -1

// maxUnits bounds the units of an object; V8's longest string has 2^29 characters.
const maxUnits = 1 << 30

// Form returns how the objects of a map lie in memory. ok is false where that is
// not known: such an object ends where the next begins.
func (h *Heap) Form(m *Map) (f Form, ok bool) {
	f = Form{Map: m, Tagged: allTagged}
	if m.Size > 0 {
		if rawKinds[m.Kind] {
			f.Tagged = wordSize
		}
		return f, true
	}
	if f.shape, ok = h.shapeOf(m); ok {
		f.Tagged = f.shape.tagged
	}
	return f, ok
}

// shapeOf finds m's shape: the newest row of its kind that V8's version has.
func (h *Heap) shapeOf(m *Map) (found shape, ok bool) {
	if m.Kind == "InternalizedString" {
		if m.Type&oneByte != 0 {
			return shapes["SeqOneByteString"], true
		}
		return shapes["SeqTwoByteString"], true
	}
	found, ok = shapes[m.Kind]
	for _, row := range shapeRows {
		if row.kind == m.Kind && row.from.Compare(h.version) <= 0 {
			found, ok = row.shape, true
		}
	}
	return found, ok
}

// Size returns how many bytes an object takes that begins with head, at least
// FormHead bytes of it where there are as many; 0 if no object begins so.
func (f Form) Size(head []byte) int {
	if f.Map.Size > 0 {
		return f.Map.Size
	}
	if len(head) < FormHead {
		var whole [FormHead]byte
		copy(whole[:], head)
		head = whole[:]
	}
	count := f.shape.count(head)
	if count < 0 || count > maxUnits {
		return 0
	}
	align := max(f.shape.align, wordSize)
	return (f.shape.header + count*f.shape.unit + align - 1) / align * align
}

// SizeOf returns how many bytes o takes in the heap, without what it refers to.
func (h *Heap) SizeOf(o Object) (int, error) {
	f, ok := h.Form(o.Map)
	if !ok {
		return 0, fmt.Errorf("size of object at %#x: that of %s is not known", o.Address, o.Map.Kind)
	}
	if o.Map.Size > 0 {
		return o.Map.Size, nil
	}
	var head [FormHead]byte
	n, err := h.mem.ReadAt(head[:], o.Address)
	if n < 2*wordSize {
		return 0, fmt.Errorf("size of object at %#x: %w", o.Address, err)
	}
	size := f.Size(head[:])
	if size == 0 {
		return 0, fmt.Errorf("size of object at %#x: no %s has so many parts", o.Address, o.Map.Kind)
	}
	return size, nil
}

// rawKinds are the kinds of one size that refer to nothing.
var rawKinds = map[string]bool{"HeapNumber": true, "Foreign": true, "Filler": true}

// array is the shape of most that has a length: a small integer, then as many words.
var array = shape{header: arrayFirst, unit: wordSize, count: arrayCount, tagged: allTagged}

// shapes has the kinds whose size varies, as far as all versions agree.
var shapes = map[string]shape{
	"FixedArray":                   array,
	"HashTable":                    array,
	"EphemeronHashTable":           array,
	"GlobalDictionary":             array,
	"NameDictionary":               array,
	"NameToIndexHashTable":         array,
	"NumberDictionary":             array,
	"OrderedHashMap":               array,
	"OrderedHashSet":               array,
	"OrderedNameDictionary":        array,
	"RegisteredSymbolTable":        array,
	"SimpleNameDictionary":         array,
	"SimpleNumberDictionary":       array,
	"ClosureFeedbackCellArray":     array,
	"ObjectBoilerplateDescription": array,
	"ScriptContextTable":           array,
	"TrustedFixedArray":            array,
	"ProtectedFixedArray":          array,
	"WeakFixedArray":               array,
	"TransitionArray":              array,
	"TrustedWeakFixedArray":        array,
	"ProtectedWeakFixedArray":      array,
	"EmbedderDataArray":            array,
	"AwaitContext":                 array,
	"BlockContext":                 array,
	"CatchContext":                 array,
	"DebugEvaluateContext":         array,
	"EvalContext":                  array,
	"FunctionContext":              array,
	"ModuleContext":                array,
	"ScriptContext":                array,
	"WithContext":                  array,
	"NativeContext":                {header: 24, unit: wordSize, count: arrayCount, tagged: allTagged},
	"PropertyArray":                {header: 16, unit: wordSize, count: propertyCount, tagged: allTagged},
	"WeakArrayList":                {header: 24, unit: wordSize, count: arrayCount, tagged: allTagged},
	"DependentCode":                {header: 24, unit: wordSize, count: arrayCount, tagged: allTagged},
	"ArrayList":                    {header: 24, unit: wordSize, count: arrayCount, tagged: allTagged},
	"RegExpMatchInfo":              {header: 40, unit: wordSize, count: arrayCount, tagged: allTagged},
	"SloppyArgumentsElements":      {header: 32, unit: wordSize, count: arrayCount, tagged: allTagged},
	"FeedbackVector":               {header: 48, unit: wordSize, count: int32At8, tagged: allTagged},
	"DescriptorArray":              {header: 24, unit: descriptorSize, count: descriptorsCount, tagged: allTagged},
	"StrongDescriptorArray":        {header: 24, unit: descriptorSize, count: descriptorsCount, tagged: allTagged},
	"FixedDoubleArray":             {header: 16, unit: wordSize, count: arrayCount, tagged: wordSize},
	"ExternalPointerArray":         {header: 16, unit: wordSize, count: arrayCount, tagged: wordSize},
	"ByteArray":                    {header: 16, unit: 1, count: arrayCount, tagged: wordSize},
	"TrustedByteArray":             {header: 16, unit: 1, count: arrayCount, tagged: wordSize},
	"SeqOneByteString":             {header: stringFirst, unit: 1, count: int32At12, tagged: wordSize},
	"SeqTwoByteString":             {header: stringFirst, unit: 2, count: int32At12, tagged: wordSize},
	"BigInt":                       {header: 16, unit: wordSize, count: digitCount, tagged: wordSize},
	"FreeSpace":                    {unit: 1, count: arrayCount, tagged: wordSize},
	"FeedbackMetadata":             {header: 16, unit: 1, count: slotKindBytes, tagged: wordSize},
	"PreparseData":                 {header: 16, unit: wordSize, count: preparseWords, tagged: allTagged},
}

// shapeRows has what versions changed, oldest first.
var shapeRows = []struct {
	from  Version
	kind  string
	shape shape
}{
	{Version{9, 4, 0, 0}, "Code", shape{header: 96, unit: 1, count: codeBytes, tagged: 40, align: 32}},
	{Version{10, 1, 0, 0}, "Code", shape{header: 128, unit: 1, count: codeBytes, tagged: 40, align: 64}},
	{Version{9, 4, 0, 0}, "BytecodeArray", shape{header: 54, unit: 1, count: arrayCount, tagged: 40}},
	{Version{10, 2, 0, 0}, "BytecodeArray", shape{header: 56, unit: 1, count: arrayCount, tagged: 40}},
	{Version{11, 3, 0, 0}, "BytecodeArray", shape{header: 54, unit: 1, count: arrayCount, tagged: 40}},
	{Version{12, 4, 0, 0}, "BytecodeArray", shape{header: 64, unit: 1, count: arrayCount, tagged: 48}},
	{Version{11, 3, 0, 0}, "FeedbackVector", shape{header: 56, unit: wordSize, count: int32At8, tagged: allTagged}},
	{Version{13, 6, 0, 0}, "FeedbackVector", shape{header: 48, unit: wordSize, count: int32At8, tagged: allTagged}},
	{Version{12, 4, 0, 0}, "ObjectBoilerplateDescription", shape{header: 32, unit: wordSize, count: arrayCount, tagged: allTagged}},
	{Version{12, 4, 0, 0}, "ScriptContextTable", shape{header: 32, unit: wordSize, count: arrayCount, tagged: allTagged}},
	{Version{12, 4, 0, 0}, "InstructionStream", shape{header: 32, unit: 1, count: int32At24, tagged: 24, align: 64}},
	{Version{13, 6, 0, 0}, "FeedbackMetadata", shape{header: 16, unit: 1, count: slotAndClosureBytes, tagged: wordSize}},
	{Version{13, 6, 233, 11}, "FreeSpace", shape{unit: wordSize, count: arrayCount, tagged: wordSize}}, // bytes in .8 and .10: Node.js 24.0 to 24.11
	{Version{14, 1, 0, 0}, "DescriptorArray", shape{header: 32, unit: descriptorSize, count: descriptorsCount, tagged: allTagged}},
	{Version{14, 1, 0, 0}, "StrongDescriptorArray", shape{header: 32, unit: descriptorSize, count: descriptorsCount, tagged: allTagged}},
}

func int32Of(head []byte, offset int) int {
	return int(int32(binary.LittleEndian.Uint32(head[offset:])))
}

func int32At8(head []byte) int  { return int32Of(head, 8) }
func int32At12(head []byte) int { return int32Of(head, 12) }
func int32At24(head []byte) int { return int32Of(head, 24) }

// arrayCount is a small integer, whose value is in a word's upper half.
func arrayCount(head []byte) int { return int32Of(head, arrayLength+4) }

func propertyCount(head []byte) int { return arrayCount(head) & propertyLength }

func descriptorsCount(head []byte) int { return int(binary.LittleEndian.Uint16(head[8:])) }

// digitCount is above the sign's bit.
func digitCount(head []byte) int { return int(binary.LittleEndian.Uint32(head[8:])&(1<<31-1)) >> 1 }

// codeBytes are those of the instructions and of what comes with them.
func codeBytes(head []byte) int { return int32Of(head, 40) + int32Of(head, 44) }

// slotKindBytes: six slots' kinds are in four bytes.
func slotKindBytes(head []byte) int { return (int32At8(head) + 5) / 6 * 4 }

// slotAndClosureBytes: two bytes for each closure follow.
func slotAndClosureBytes(head []byte) int { return slotKindBytes(head) + 2*int32At12(head) }

// preparseWords are those of the data, and of the inner functions'.
func preparseWords(head []byte) int { return (int32At8(head)+wordSize-1)/wordSize + int32At12(head) }
