package v8

// typeRow returns V8's class names by instance type for the types that metadata
// does not name.
func typeRow(Version) map[uint16]string { return map[uint16]string{} }

// fieldRow returns where in an object of a class a field is that metadata omits.
func fieldRow(_ Version, class, field string) (offset int, ok bool) {
	switch class + "." + field {
	case "JSArray.length":
		return 24, true
	}
	return 0, false
}
