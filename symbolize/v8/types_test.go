package v8

import (
	"strings"
	"testing"

	"ustack/testdata/nodetest"
)

func TestTypesAgreeWithMetadata(t *testing.T) {
	forEachRelease(t, typesAgreeWithMetadata)
	t.Run("18.0.0", func(t *testing.T) { typesAgreeWithMetadata(t, nodetest.Node(t, "18.0.0")) })
}

func typesAgreeWithMetadata(t *testing.T, path string) {
	b := inspect(t, path)
	measured := map[uint16]string{}
	for class, typ := range b.Release.Types {
		measured[typ] = class
	}
	forms := map[uint16]string{}
	nameStrings(forms, b.Release.Strings.SharedTypes)
	if got := len(measured) + len(forms); got < 60 {
		t.Errorf("types named = %d, want more than 60", got)
	}
	for name, v := range b.metadata {
		rest, ok := strings.CutPrefix(name, "type_")
		if !ok {
			continue
		}
		class, _, _ := strings.Cut(rest, "__")
		for _, row := range []map[uint16]string{measured, forms} {
			if got := row[uint16(v)]; got != "" && got != class {
				t.Errorf("type %d = %s, want %s", v, got, class)
			}
		}
		if typ, ok := b.Release.Types[class]; ok {
			t.Errorf("type %d is %s, which metadata names itself", typ, class)
		}
	}
	if got := forms[b.Layout.FirstNonstring]; got != "" {
		t.Errorf("first type that is no string = %s, want none: metadata has it", got)
	}
}
