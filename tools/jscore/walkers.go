package jscore

import (
	"fmt"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/value"
)

// WalkProperties lists the values of an object's own properties; accessors have none.
func WalkProperties(h *v8.Heap, v v8.Value) (*Values, error) {
	o, err := h.Object(v)
	if err != nil {
		return nil, err
	}
	if !h.IsReceiver(o) {
		return nil, fmt.Errorf("a %s is no JavaScript object", o.Map.KindName())
	}
	list, err := JSArray(h, v, false) // properties that are numbers
	if err != nil {
		return nil, err
	}
	properties, err := h.Properties(o)
	if err != nil && len(properties) == 0 {
		return nil, err
	}
	for _, p := range properties {
		if len(list.Values) >= maxArray {
			break
		}
		if !p.Accessor {
			list.Values = append(list.Values, Indexed{len(list.Values), value.BriefOf(h, p.Value)})
		}
	}
	return list, nil
}
