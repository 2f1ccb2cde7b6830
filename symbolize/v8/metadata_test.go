package v8

import (
	"debug/elf"
	"testing"

	"ustack/symbolize/v8/release"

	"github.com/google/go-cmp/cmp"
)

func TestFieldsAreFoundWhateverTheirType(t *testing.T) {
	m := metadata{
		"class_JSFunction__shared__Tagged_SharedFunctionInfo_": 32,
		"class_JSFunction__shared_stuff__Object":               99,
		"FirstNonstringType":                                   128,
	}
	for _, tt := range []struct {
		names []string
		want  int32
		ok    bool
	}{
		{[]string{"class_JSFunction__shared__"}, 32, true},
		{[]string{"class_JSFunction__code__", "FirstNonstringType"}, 128, true},
		{[]string{"FirstNonstring"}, 0, false},
		{[]string{"class_JSFunction__code__"}, 0, false},
	} {
		got, ok := m.lookup(tt.names...)
		if got != tt.want || ok != tt.ok {
			t.Errorf("lookup(%q) = %d, %t, want %d, %t", tt.names, got, ok, tt.want, tt.ok)
		}
	}
}

func TestTypedFramesHaveReadableLabels(t *testing.T) {
	m := metadata{
		"frametype_EntryFrame":                         1,
		"frametype_JsToWasmFrame":                      7,
		"frametype_TurbofanJSFrame":                    17,
		"frametype_CWasmEntryFrame":                    10,
		"frametype_JavaScriptBuiltinContinuationFrame": 21,
		"frametype_ApiCallbackExitFrame":               28,
		"frametype_Broken":                             1 << 20,
		"off_fp_args":                                  16,
	}
	want := map[uint8]string{
		1: "entry", 7: "js to wasm", 17: "turbofan js", 10: "c wasm entry",
		21: "javascript builtin continuation", 28: "api callback exit",
	}
	if diff := cmp.Diff(want, m.frameTypes()); diff != "" {
		t.Errorf("labels differ (-want +got):\n%s", diff)
	}
}

func TestLayoutNamesWhatMetadataLacks(t *testing.T) {
	_, err := derive(metadata{"type_JSFunction__JS_FUNCTION_TYPE": 1 << 20}, release.All()[0], elf.EM_X86_64)
	if err == nil {
		t.Fatal("derive succeeded on metadata with one value out of range")
	}
	for _, want := range []string{"type_ScopeInfo__", "out of range: [FirstJSFunctionType]"} {
		if !contains(err, want) {
			t.Errorf("error = %q, want %q in it", err, want)
		}
	}
}
