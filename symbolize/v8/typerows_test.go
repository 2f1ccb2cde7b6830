package v8

import (
	"strings"
	"testing"

	"ustack/testdata/nodetest"
)

func TestTypeRowsAgreeWithMetadata(t *testing.T) {
	forEachRelease(t, typesAgreeWithMetadata)
	t.Run("18.0.0", func(t *testing.T) { typesAgreeWithMetadata(t, nodetest.Node(t, "18.0.0")) })
}

func typesAgreeWithMetadata(t *testing.T, path string) {
	b := inspect(t, path)
	row := typeRow(b.Version)
	if len(row) < 60 {
		t.Errorf("types named = %d, want more than 60", len(row))
	}
	named := map[string]int{}
	for name, v := range b.metadata {
		rest, ok := strings.CutPrefix(name, "type_")
		if !ok {
			continue
		}
		class, _, _ := strings.Cut(rest, "__")
		named[class]++
		if got := row[uint16(v)]; got != "" && got != class {
			t.Errorf("type %d = %s, want %s", v, got, class)
		}
	}
	for typ, class := range row {
		if named[class] > 0 && typ >= b.Layout.FirstNonstring {
			t.Errorf("type %d is %s, which metadata names itself", typ, class)
		}
	}
	if got := row[b.Layout.FirstNonstring]; got != "" {
		t.Errorf("first type that is no string = %s, want none: metadata has it", got)
	}
}

func TestTypesAreNamedOnce(t *testing.T) {
	for _, r := range typeRows {
		numbers, names := map[uint16]bool{}, map[string]bool{}
		for _, run := range r.runs {
			for i, name := range strings.Fields(run.names) {
				n := run.first + uint16(i)
				if numbers[n] || names[name] {
					t.Errorf("V8 %v: type %d, %s, is there twice", r.version, n, name)
				}
				numbers[n], names[name] = true, true
			}
		}
	}
}

func TestStringTypesAreNamedByTheirForm(t *testing.T) {
	v := Version{14, 6, 202, 34}
	for typ, want := range map[uint16]string{
		8: "InternalizedString", 10: "ExternalOneByteString", 33: "ConsString", 37: "ThinString",
		40: "SeqOneByteString", 43: "SlicedString", 58: "UncachedExternalString", 96: "SeqTwoByteString",
		36: "", 48: "", 128: "",
	} {
		if got := typeRow(v)[typ]; got != want {
			t.Errorf("type %d = %q, want %q", typ, got, want)
		}
	}
	if got := typeRow(Version{9, 4, 146, 26})[96]; got != "" {
		t.Errorf("type 96 of V8 9.4 = %q, want none: isolates share no strings", got)
	}
}

func TestFieldRowsHaveAnOffsetForEachLine(t *testing.T) {
	for name, offsets := range fieldRows {
		if len(offsets) != 1 && len(offsets) != len(typeRows) {
			t.Errorf("%s has %d offsets, want 1 or %d", name, len(offsets), len(typeRows))
		}
	}
	for _, tt := range []struct {
		version      Version
		class, field string
		want         int
		ok           bool
	}{
		{Version{10, 1, 124, 8}, "JSArray", "length", 24, true},
		{Version{12, 4, 254, 21}, "JSModuleNamespace", "module", 24, true},
		{Version{13, 6, 233, 17}, "JSModuleNamespace", "module", 32, true},
		{Version{9, 4, 146, 26}, "JSArrayBufferView", "bit_field", 0, false},
		{Version{14, 6, 202, 34}, "JSArray", "width", 0, false},
		{Version{8, 0, 0, 0}, "JSArray", "length", 0, false},
	} {
		if got, ok := fieldRow(tt.version, tt.class, tt.field); got != tt.want || ok != tt.ok {
			t.Errorf("%s.%s in V8 %v = %d, %t, want %d, %t", tt.class, tt.field, tt.version, got, ok, tt.want, tt.ok)
		}
	}
}
