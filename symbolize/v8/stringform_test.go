package v8

import "testing"

func TestStringTypesAreNamedByTheirForm(t *testing.T) {
	kinds := map[uint16]string{}
	nameStrings(kinds, true)
	for typ, want := range map[uint16]string{
		8: "InternalizedString", 10: "ExternalOneByteString", 33: "ConsString", 37: "ThinString",
		40: "SeqOneByteString", 43: "SlicedString", 58: "UncachedExternalString", 96: "SeqTwoByteString",
		36: "", 48: "", 128: "",
	} {
		if got := kinds[typ]; got != want {
			t.Errorf("type %d = %q, want %q", typ, got, want)
		}
	}
	clear(kinds)
	nameStrings(kinds, false)
	if got := kinds[96]; got != "" {
		t.Errorf("type 96 where isolates share no strings = %q, want none", got)
	}
}
