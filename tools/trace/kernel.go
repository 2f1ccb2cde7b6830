package trace

import (
	"fmt"
	"reflect"

	"github.com/cilium/ebpf"
)

// A kernel is what the programs of every tool have in common (bpf/stack.h, bpf/exec.h).
type kernel struct {
	Maps
	Events *ebpf.Map     `ebpf:"events"`
	OnExec *ebpf.Program `ebpf:"on_exec"`
	// Unwalked counts events that came while all walks of their CPU were in use (bpf/busy.h).
	Unwalked *ebpf.Variable `ebpf:"unwalked"`
}

// Find sets the fields of to, a pointer to a struct, that have a tag, from those with the same tag
// of objects, a pointer to a struct that bpf2go generated.
func Find(objects, to any) error {
	named := make(map[string]reflect.Value)
	collect(reflect.ValueOf(objects).Elem(), named)
	return fill(reflect.ValueOf(to).Elem(), named)
}

// collect adds the tagged fields of a struct, and of the structs in it, by their tags.
func collect(v reflect.Value, named map[string]reflect.Value) {
	for i := range v.NumField() {
		if name, ok := v.Type().Field(i).Tag.Lookup("ebpf"); ok {
			named[name] = v.Field(i)
		} else if v.Field(i).Kind() == reflect.Struct {
			collect(v.Field(i), named)
		}
	}
}

// fill sets the tagged fields of a struct, and of the structs in it.
func fill(v reflect.Value, named map[string]reflect.Value) error {
	for i := range v.NumField() {
		name, ok := v.Type().Field(i).Tag.Lookup("ebpf")
		if !ok {
			if err := fill(v.Field(i), named); err != nil {
				return err
			}
			continue
		}
		from := named[name]
		if !from.IsValid() || from.Type() != v.Field(i).Type() {
			return fmt.Errorf("the tool's BPF programs have no %s", name)
		}
		v.Field(i).Set(from)
	}
	return nil
}
