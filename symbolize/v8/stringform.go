package v8

// Bits of a string's instance type besides its form: not internalized, and shared
// between isolates.
const (
	notInternalized = 0x20
	sharedString    = 0x40
)

// nameStrings adds the classes of the instance types of strings, by their form;
// those of strings that isolates share only if shared is true.
func nameStrings(kinds map[uint16]string, shared bool) {
	end := uint16(sharedString)
	if shared {
		end *= 2
	}
	for t := range end {
		if form := stringForm(t); form != "" {
			kinds[t] = form
		}
	}
}

// stringForm returns the class of the strings of an instance type below the first
// that is not a string's; "" if it has none.
func stringForm(t uint16) string {
	if t&^(sharedString|notInternalized|uncached|oneByte|representation) != 0 {
		return ""
	}
	width := "TwoByte"
	if t&oneByte != 0 {
		width = "OneByte"
	}
	form := t & representation
	switch {
	case t&uncached != 0 && form == external:
		return "UncachedExternalString"
	case t&uncached != 0:
		return ""
	case form == external:
		return "External" + width + "String"
	case form == sequential && t&(notInternalized|sharedString) == 0:
		return "InternalizedString"
	case form == sequential:
		return "Seq" + width + "String"
	case form == cons:
		return "ConsString"
	case form == sliced:
		return "SlicedString"
	case form == thin:
		return "ThinString"
	}
	return ""
}
