package trace

import (
	"reflect"
	"testing"

	"ustack/bpf"
	"ustack/symbolize/v8"
)

// TestEveryFieldOfTheKernelsLayoutIsFilled gives each field of v8.Layout a number of its
// own and looks for it in the kernel's field of that name.
func TestEveryFieldOfTheKernelsLayoutIsFilled(t *testing.T) {
	var l v8.Layout
	from := reflect.ValueOf(&l).Elem()
	numbers := make(map[string]int64)
	for i, f := range reflect.VisibleFields(from.Type()) {
		n := int64(i + 1)
		switch v := from.FieldByIndex(f.Index); {
		case v.CanUint():
			v.SetUint(uint64(n))
		case v.CanInt():
			v.SetInt(n)
		default:
			continue
		}
		numbers[fieldName(f)] = n
	}
	if len(numbers) > 127 {
		t.Fatalf("%d fields: more than the smallest signed field can number", len(numbers))
	}
	k := layout(&l)
	to := reflect.ValueOf(k)
	for _, f := range reflect.VisibleFields(to.Type()) {
		if f.Name == "_" || f.Name == "Padding" {
			continue
		}
		v := to.FieldByIndex(f.Index)
		got := int64(0)
		if v.CanInt() {
			got = v.Int()
		} else {
			got = int64(v.Uint())
		}
		if want, ok := numbers[fieldName(f)]; !ok || got != want {
			t.Errorf("bpf.TraceLayout.%s = %d, want %d, as v8.Layout has it (known: %v)", f.Name, got, want, ok)
		}
	}
}

// TestLayoutFieldsAreAsWide fails if a value of v8.Layout may not fit the kernel's field.
func TestLayoutFieldsAreAsWide(t *testing.T) {
	to, from := reflect.TypeFor[bpf.TraceLayout](), reflect.TypeFor[v8.Layout]()
	for _, f := range layoutFields() {
		k, l := to.FieldByIndex(f.kernel), from.FieldByIndex(f.v8)
		if l.Name == "ExternalData" { // an offset in a small object
			continue
		}
		if k.Type.Kind() != l.Type.Kind() {
			t.Errorf("bpf.TraceLayout.%s is %v, v8.Layout.%s %v", k.Name, k.Type, l.Name, l.Type)
		}
	}
}
