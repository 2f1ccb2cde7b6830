package v8

// Storage says where an object's own properties are.
type Storage struct {
	Elements   bool // those with numbers for names: in its elements
	Dictionary bool // in a dictionary
	InObject   bool // in the object itself
	Array      bool // in its PropertyArray
	Map        bool // in its map: accessors and constants
}

// Storage returns where o's own properties are. If part of that cannot be read, it returns
// the rest with an error.
func (h *Heap) Storage(o Object) (Storage, error) {
	var s Storage
	properties, err := h.Properties(o)
	if err == nil {
		err = h.Elements(o, func(Element) bool {
			s.Elements = true
			return false
		})
	}
	if o.Map.Dictionary || o.Map.Kind == "JSGlobalObject" {
		s.Dictionary = len(properties) > 0
		return s, err
	}
	inside := o.Map.Size/wordSize - o.Map.InObject
	descriptors, _ := h.describe(o.Map) // Properties has returned the error
	for _, d := range descriptors {
		switch {
		case d.field < 0:
			s.Map = true
		case d.field < inside:
			s.InObject = true
		default:
			s.Array = true
		}
	}
	return s, err
}
