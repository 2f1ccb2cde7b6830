package v8

// What tests outside of the package need.
const (
	MaxMessage = 1 << 16
	MaxName    = maxName
)

var (
	EachRelease = forEachRelease
	InspectFile = inspect
	HeapAt      = heapAt
	FunctionAt  = functionAt
)
