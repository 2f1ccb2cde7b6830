package v8

import (
	"slices"
	"testing"

	"ustack/symbolize/v8/release"

	"github.com/google/go-cmp/cmp"

	"ustack/testdata/nodetest"
)

// binaryOf returns the Binary of a version of Node.js.
func binaryOf(t *testing.T, version string) *Binary {
	t.Helper()
	b, err := Inspect(nodetest.OpenELF(t, nodetest.Node(t, version)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestClassesAreAsTheLayoutHasThem(t *testing.T) {
	for _, version := range nodetest.Versions {
		b := binaryOf(t, version)
		classes := map[string]Class{}
		for _, c := range b.Classes() {
			classes[c.Name] = c
		}
		offset := func(class, field string) int {
			at := slices.IndexFunc(classes[class].Fields, func(f ClassField) bool { return f.Name == field })
			if at < 0 {
				return -1
			}
			return classes[class].Fields[at].Offset
		}
		got := map[string]int{
			"shared": offset("JSFunction", "shared"), "name": offset("Script", "name"),
			"instance_type": offset("Map", "instance_type"), "length": offset("JSArray", "length"),
		}
		want := map[string]int{
			"shared": int(b.Layout.FunctionShared), "name": int(b.Layout.ScriptName),
			"instance_type": int(b.Layout.MapInstanceType), "length": 24,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Node.js %s: offsets (-layout +classes):\n%s", version, diff)
		}
		for _, c := range classes {
			checkClass(t, classes, c)
		}
	}
}

// checkClass checks that a class's fields are in order and that it is ultimately
// derived from HeapObject.
func checkClass(t *testing.T, classes map[string]Class, c Class) {
	t.Helper()
	if !slices.IsSortedFunc(c.Fields, func(a, b ClassField) int { return a.Offset - b.Offset }) {
		t.Errorf("fields of %s = %v, want them by offset", c.Name, c.Fields)
	}
	names := map[string]bool{}
	for _, f := range c.Fields {
		if names[f.Name] || f.Size() < 1 || f.Size() > 8 {
			t.Errorf("field %s.%s is there twice, or has %d bytes", c.Name, f.Name, f.Size())
		}
		names[f.Name] = true
	}
	name := c.Name
	for depth := 0; name != "HeapObject"; depth++ {
		if name == "" || depth == maxParents {
			t.Errorf("%s is not derived from HeapObject", c.Name)
			return
		}
		name = classes[name].Parent
	}
}

func TestNumbersHaveNames(t *testing.T) {
	for _, version := range nodetest.Versions {
		b := binaryOf(t, version)
		types := b.InstanceTypes()
		if !slices.Contains(types, InstanceType{1057, "JS_OBJECT_TYPE", "JSObject"}) {
			t.Errorf("Node.js %s: types = %v, want JS_OBJECT_TYPE", version, types)
		}
		if !slices.IsSortedFunc(types, func(x, y InstanceType) int { return int(x.Number) - int(y.Number) }) {
			t.Errorf("Node.js %s: types are not by number", version)
		}
		frames := b.FrameKinds()
		if len(frames) < 20 || frames[0] != (FrameType{1, "EntryFrame"}) {
			t.Errorf("Node.js %s: frames = %v, want twenty or more from EntryFrame on", version, frames)
		}
	}
}

func TestScopeTypesAreThoseOfTheVersion(t *testing.T) {
	for _, tt := range []struct {
		version release.Version
		want    map[uint32]string
	}{
		{release.Version{Major: 9, Minor: 4, Build: 146, Patch: 26}, map[uint32]string{0: "class", 2: "function", 3: "module", 6: "block", 15: "type 15"}},
		{release.Version{Major: 12, Minor: 4, Build: 254, Patch: 21}, map[uint32]string{0: "class", 2: "function", 3: "module", 5: "catch", 8: "shadow realm"}},
		{release.Version{Major: 13, Minor: 6, Build: 233, Patch: 17}, map[uint32]string{0: "script", 2: "class", 4: "function", 5: "module", 7: "block"}},
	} {
		h := heapOf(t, tt.version)
		for number, want := range tt.want {
			if got := h.scopeType(number | 1<<26); got != want {
				t.Errorf("scope type %d of V8 %v = %s, want %s", number, tt.version, got, want)
			}
		}
	}
}
