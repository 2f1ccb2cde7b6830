package v8

import (
	"encoding/binary"
	"testing"

	"ustack/symbolize/v8/release"
)

// head returns an object's first words; 0 is its map.
func head(words ...uint64) []byte {
	var b []byte
	for _, w := range append([]uint64{0}, words...) {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// heapOf returns a heap of a version of V8 without any memory.
func heapOf(t *testing.T, v release.Version) *Heap {
	t.Helper()
	r, err := release.For(v)
	if err != nil {
		t.Fatal(err)
	}
	return &Heap{release: r, shapes: shapesOf(&r.Sizes)}
}

func TestSizeOfObjectIsCountedFromItsHead(t *testing.T) {
	var (
		node16  = release.Version{Major: 9, Minor: 4, Build: 146, Patch: 26}
		node18  = release.Version{Major: 10, Minor: 2, Build: 154, Patch: 26}
		node20  = release.Version{Major: 11, Minor: 3, Build: 244, Patch: 8}
		node22  = release.Version{Major: 12, Minor: 4, Build: 254, Patch: 21}
		first24 = release.Version{Major: 13, Minor: 6, Build: 233, Patch: 10} // of Node.js 24.11
		node24  = release.Version{Major: 13, Minor: 6, Build: 233, Patch: 17}
		node26  = release.Version{Major: 14, Minor: 6, Build: 202, Patch: 34}
	)
	const smi = 1 << 32
	for _, test := range []struct {
		name    string
		version release.Version
		m       *Map
		head    []byte
		want    int
	}{
		{"fixed", node16, &Map{Kind: "JSObject", Size: 56}, nil, 56},
		{"array", node26, &Map{Kind: "FixedArray"}, head(3 * smi), 40},
		{"empty array at a page's end", node26, &Map{Kind: "FixedArray"}, head(0), 16},
		{"array of a negative length", node26, &Map{Kind: "FixedArray"}, head(1<<64 - smi), 0},
		{"array of an absurd length", node26, &Map{Kind: "FixedArray"}, head((1<<30 + 1) * smi), 0},
		{"property array with a hash", node22, &Map{Kind: "PropertyArray"}, head((77<<10 | 3) * smi), 40},
		{"string", node22, &Map{Kind: "SeqOneByteString"}, head(5 * smi), 24},
		{"string of two bytes", node22, &Map{Kind: "SeqTwoByteString"}, head(5 * smi), 32},
		{"name of one byte", node22, &Map{Kind: "InternalizedString", Type: oneByte}, head(9 * smi), 32},
		{"name of two bytes", node22, &Map{Kind: "InternalizedString"}, head(9 * smi), 40},
		{"negative integer of two digits", node22, &Map{Kind: "BigInt"}, head(2<<1 | 1), 32},
		{"free space in bytes", node22, &Map{Kind: "FreeSpace"}, head(24 * smi), 24},
		{"free space in bytes, still", first24, &Map{Kind: "FreeSpace"}, head(24 * smi), 24},
		{"free space in words", node24, &Map{Kind: "FreeSpace"}, head(3 * smi), 24},
		{"code, aligned to 32 bytes", node16, &Map{Kind: "Code"}, head(0, 0, 0, 0, 4|4<<32), 128},
		{"code, aligned to 64 bytes", node18, &Map{Kind: "Code"}, head(0, 0, 0, 0, 60|8<<32), 256},
		{"instructions", node26, &Map{Kind: "InstructionStream"}, head(0, 0, 0x220), 576},
		{"instructions", node22, &Map{Kind: "InstructionStream"}, head(0, 0, 0xa10), 0xa40},
		{"bytecode", node16, &Map{Kind: "BytecodeArray"}, head(5 * smi), 64},
		{"bytecode", node22, &Map{Kind: "BytecodeArray"}, head(13 * smi), 80},
		{"feedback", node18, &Map{Kind: "FeedbackVector"}, head(1), 56},
		{"feedback", node20, &Map{Kind: "FeedbackVector"}, head(1), 64},
		{"feedback", node26, &Map{Kind: "FeedbackVector"}, head(2), 64},
		{"slots", node20, &Map{Kind: "FeedbackMetadata"}, head(12 | 1<<32), 24},
		{"slots and closures", node24, &Map{Kind: "FeedbackMetadata"}, head(162 | 24<<32), 176},
		{"descriptors", node22, &Map{Kind: "DescriptorArray"}, head(0x700010001), 48},
		{"descriptors", node26, &Map{Kind: "DescriptorArray"}, head(0x700010001), 56},
		{"inner functions", node20, &Map{Kind: "PreparseData"}, head(10 | 1<<32), 40},
	} {
		h := heapOf(t, test.version)
		f, ok := h.Form(test.m)
		if !ok {
			t.Errorf("%s: form of %s is not known", test.name, test.m.Kind)
			continue
		}
		if got := f.Size(test.head); got != test.want {
			t.Errorf("%s: size of %s in V8 %v = %d, want %d", test.name, test.m.Kind, test.version, got, test.want)
		}
	}
}

func TestOnlyReferencesAreTagged(t *testing.T) {
	h := heapOf(t, release.Version{Major: 12, Minor: 4})
	for kind, want := range map[string]int{
		"FixedArray": allTagged, "FunctionContext": allTagged, "FixedDoubleArray": wordSize,
		"SeqOneByteString": wordSize, "ByteArray": wordSize, "BytecodeArray": 48,
	} {
		f, ok := h.Form(&Map{Kind: kind})
		if !ok || f.Tagged != want {
			t.Errorf("tagged bytes of %s = %d, %v, want %d", kind, f.Tagged, ok, want)
		}
	}
	if f, _ := h.Form(&Map{Kind: "HeapNumber", Size: 16}); f.Tagged != wordSize {
		t.Errorf("tagged bytes of a number = %d, want none after its map", f.Tagged)
	}
	if f, ok := h.Form(&Map{Kind: "ScopeInfo"}); ok || f.Tagged != allTagged {
		t.Errorf("form of ScopeInfo = %+v, %v, want it to end where the next object begins, and all of it tagged", f, ok)
	}
}
