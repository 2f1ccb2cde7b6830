package v8

import (
	"encoding/binary"
	"maps"

	"ustack/symbolize/v8/release"
)

// A Form is the memory layout of one map's objects: their size, and which of
// their words may be references.
type Form struct {
	Map    *Map
	Tagged int // bytes from the start, including the map, that may hold references; below zero: all

	shape *shape // nil if the map has the size
}

// FormHead is the number of bytes at an object's start that determine its size.
const FormHead = 48

// A shape is the memory layout of objects whose size is not in their map: a
// header, then units.
type shape struct {
	header int // bytes
	unit   int // bytes
	count  func(head []byte) int
	tagged int // as Form.Tagged
	align  int // bytes; a word if 0
}

// allTagged is the value of a shape's tagged if no part is raw.
const allTagged = -1

// maxUnits bounds the units of an object; V8's longest string has 2^29 characters.
const maxUnits = 1 << 30

// Form returns the memory layout of a map's objects. ok is false if it is not
// known: such an object ends where the next begins.
func (h *Heap) Form(m *Map) (f Form, ok bool) {
	f = Form{Map: m, Tagged: allTagged}
	if m.Size > 0 {
		if isRaw(m.Kind) {
			f.Tagged = wordSize
		}
		return f, true
	}
	if f.shape, ok = h.shapeOf(m); ok {
		f.Tagged = f.shape.tagged
	}
	return f, ok
}

// LeastSize returns the size in bytes that an object has at least if Form does not know it. The object
// begins at the start of data, which may contain others after it.
func (h *Heap) LeastSize(m *Map, data []byte) int {
	if m.Kind == "ScopeInfo" {
		if size, err := h.leastScope(data); err == nil && size <= len(data) {
			return size
		}
	}
	return wordSize
}

// shapeOf finds m's shape: the release's for its kind, or else the one that all
// releases share.
func (h *Heap) shapeOf(m *Map) (found *shape, ok bool) {
	if m.Kind == "InternalizedString" {
		if m.Type&oneByte != 0 {
			return shapes["SeqOneByteString"], true
		}
		return shapes["SeqTwoByteString"], true
	}
	if found, ok = h.shapes[m.Kind]; ok {
		return found, true
	}
	found, ok = shapes[m.Kind]
	return found, ok
}

// Size returns the size in bytes of an object that begins with head, which must
// have at least FormHead bytes unless memory ends earlier; 0 if no object begins
// like this.
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

// isRaw reports whether objects of a kind, of fixed size, have no references.
func isRaw(kind string) bool { return kind == "HeapNumber" || kind == "Foreign" || kind == "Filler" }

// array is the shape of most kinds that have a length: a small integer, then that
// many words.
var array = &shape{header: arrayFirst, unit: wordSize, count: arrayCount, tagged: allTagged}

// shapes has the kinds of variable size, as far as all versions agree.
var shapes = map[string]*shape{
	"FixedArray":               array,
	"HashTable":                array,
	"EphemeronHashTable":       array,
	"GlobalDictionary":         array,
	"NameDictionary":           array,
	"NameToIndexHashTable":     array,
	"NumberDictionary":         array,
	"OrderedHashMap":           array,
	"OrderedHashSet":           array,
	"OrderedNameDictionary":    array,
	"RegisteredSymbolTable":    array,
	"SimpleNameDictionary":     array,
	"SimpleNumberDictionary":   array,
	"ClosureFeedbackCellArray": array,
	"TrustedFixedArray":        array,
	"ProtectedFixedArray":      array,
	"WeakFixedArray":           array,
	"TransitionArray":          array,
	"TrustedWeakFixedArray":    array,
	"ProtectedWeakFixedArray":  array,
	"EmbedderDataArray":        array,
	"AwaitContext":             array,
	"BlockContext":             array,
	"CatchContext":             array,
	"DebugEvaluateContext":     array,
	"EvalContext":              array,
	"FunctionContext":          array,
	"ModuleContext":            array,
	"ScriptContext":            array,
	"WithContext":              array,
	"NativeContext":            {header: 24, unit: wordSize, count: arrayCount, tagged: allTagged},
	"PropertyArray":            {header: 16, unit: wordSize, count: propertyCount, tagged: allTagged},
	"WeakArrayList":            {header: 24, unit: wordSize, count: arrayCount, tagged: allTagged},
	"DependentCode":            {header: 24, unit: wordSize, count: arrayCount, tagged: allTagged},
	"ArrayList":                {header: 24, unit: wordSize, count: arrayCount, tagged: allTagged},
	"RegExpMatchInfo":          {header: 40, unit: wordSize, count: arrayCount, tagged: allTagged},
	"SloppyArgumentsElements":  {header: 32, unit: wordSize, count: arrayCount, tagged: allTagged},
	"FixedDoubleArray":         {header: 16, unit: wordSize, count: arrayCount, tagged: wordSize},
	"ExternalPointerArray":     {header: 16, unit: wordSize, count: arrayCount, tagged: wordSize},
	"ByteArray":                {header: 16, unit: 1, count: arrayCount, tagged: wordSize},
	"TrustedByteArray":         {header: 16, unit: 1, count: arrayCount, tagged: wordSize},
	"SeqOneByteString":         {header: stringFirst, unit: 1, count: int32At12, tagged: wordSize},
	"SeqTwoByteString":         {header: stringFirst, unit: 2, count: int32At12, tagged: wordSize},
	"BigInt":                   {header: 16, unit: wordSize, count: digitCount, tagged: wordSize},
	"PreparseData":             {header: 16, unit: wordSize, count: preparseWords, tagged: allTagged},
}

// shapesOf returns the shapes that differ between releases. Those without a
// header are not known.
func shapesOf(s *release.Sizes) map[string]*shape {
	metadata, free := slotKindBytes, 1
	if s.FeedbackMetadataClosures {
		metadata = slotAndClosureBytes
	}
	if s.FreeSpaceInWords {
		free = wordSize
	}
	descriptors := &shape{header: s.DescriptorArray, unit: descriptorSize, count: descriptorsCount, tagged: allTagged}
	all := map[string]*shape{
		"Code":                         {header: s.Code, unit: 1, count: codeBytes, tagged: 40, align: s.CodeAlign},
		"InstructionStream":            {header: s.InstructionStream, unit: 1, count: int32At24, tagged: 24, align: 64},
		"BytecodeArray":                {header: s.BytecodeArray, unit: 1, count: arrayCount, tagged: s.BytecodeArrayTagged},
		"FeedbackVector":               {header: s.FeedbackVector, unit: wordSize, count: int32At8, tagged: allTagged},
		"FeedbackMetadata":             {header: 16, unit: 1, count: metadata, tagged: wordSize},
		"ObjectBoilerplateDescription": {header: s.BoilerplateDescription, unit: wordSize, count: arrayCount, tagged: allTagged},
		"ScriptContextTable":           {header: s.ScriptContextTable, unit: wordSize, count: arrayCount, tagged: allTagged},
		"DescriptorArray":              descriptors,
		"StrongDescriptorArray":        descriptors,
	}
	maps.DeleteFunc(all, func(_ string, s *shape) bool { return s.header == 0 })
	all["FreeSpace"] = &shape{unit: free, count: arrayCount, tagged: wordSize}
	return all
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

// digitCount is stored above the sign bit.
func digitCount(head []byte) int { return int(binary.LittleEndian.Uint32(head[8:])&(1<<31-1)) >> 1 }

// codeBytes is the size of the instructions and of the data that follows them.
func codeBytes(head []byte) int { return int32Of(head, 40) + int32Of(head, 44) }

// slotKindBytes is the size of the slots' kinds: four bytes hold six.
func slotKindBytes(head []byte) int { return (int32At8(head) + 5) / 6 * 4 }

// slotAndClosureBytes adds two bytes for each closure.
func slotAndClosureBytes(head []byte) int { return slotKindBytes(head) + 2*int32At12(head) }

// preparseWords counts the words of the data and those for inner functions.
func preparseWords(head []byte) int { return (int32At8(head)+wordSize-1)/wordSize + int32At12(head) }
