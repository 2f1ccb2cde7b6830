package value_test

import (
	"slices"
	"testing"

	"ustack/symbolize/v8/value"
	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/calls"
)

// TestClassesShowWhatAnObjectHolds has an object whose fields are known.
func TestClassesShowWhatAnObjectHolds(t *testing.T) {
	const source = `class Held {}
const held = Object.assign(new Held(), { array: [1, 2, 3], rope: 'left of a string '.repeat(process.argv.length) + process.pid });
setInterval(() => held, 1 << 30);
console.log('ready');`
	version := nodetest.Versions[len(nodetest.Versions)/2]
	target := calls.StartSource(t, version, source)
	h, held := heldBy(t, target.PID)
	known := h.Binary().Classes()
	array, err := value.Lookup(h, value.Slot{Value: held}, "array")
	if err != nil {
		t.Fatal(err)
	}
	classes, err := value.Classes(h, known, array.Value)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	fields := map[string]value.Field{}
	for _, c := range classes {
		names = append(names, c.Name)
		for _, f := range c.Fields {
			fields[f.Name] = f
		}
	}
	if want := []string{"JSArray", "JSObject", "JSReceiver", "HeapObject"}; !slices.Equal(names, want) {
		t.Errorf("classes = %v, want %v", names, want)
	}
	if f := fields["length"]; f.Value == nil || f.Value.Kind != "SMI" || f.Value.Text != "3" || uint64(f.At) <= array.Value.Address() {
		t.Errorf("length = %+v, want 3 within the array", f)
	}
	if f := fields["map"]; f.Value == nil || f.Value.Kind != "Map" || uint64(f.At) != array.Value.Address() {
		t.Errorf("map = %+v, want a Map at the array's beginning", f)
	}
	if classes, err := value.Classes(h, known, 0); err != nil || len(classes) > 0 {
		t.Errorf("classes of a small integer = %v, %v, want none", classes, err)
	}
	if classes, err := value.Classes(h, nil, array.Value); err != nil || len(classes) > 0 {
		t.Errorf("classes where none is known = %v, %v, want none", classes, err)
	}
}
