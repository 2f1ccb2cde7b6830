package trace

import (
	"reflect"
	"strings"
	"sync"

	"ustack/bpf"
	"ustack/symbolize/v8"
)

// layout converts l to the kernel's struct layout.
func layout(l *v8.Layout) (k bpf.TraceLayout) {
	to, from := reflect.ValueOf(&k).Elem(), reflect.ValueOf(l).Elem()
	for _, f := range layoutFields() {
		field := to.FieldByIndex(f.kernel)
		field.Set(from.FieldByIndex(f.v8).Convert(field.Type()))
	}
	return k
}

// A layoutField is a field of the kernel's struct layout and the one of v8.Layout that
// has its name, by their indexes.
type layoutField struct{ kernel, v8 []int }

// layoutFields returns the fields that both structs have.
var layoutFields = sync.OnceValue(func() []layoutField {
	known := make(map[string][]int)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[v8.Layout]()) {
		known[fieldName(f)] = f.Index
	}
	var fields []layoutField
	for _, f := range reflect.VisibleFields(reflect.TypeFor[bpf.TraceLayout]()) {
		if at, ok := known[fieldName(f)]; ok {
			fields = append(fields, layoutField{f.Index, at})
		}
	}
	return fields
})

// fieldName returns a field's name without what differs between C and Go: script_id and
// ScriptID are scriptid.
func fieldName(f reflect.StructField) string {
	return strings.ToLower(strings.ReplaceAll(f.Name, "_", ""))
}
