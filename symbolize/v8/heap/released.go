package heap

import (
	"slices"

	"ustack/symbolize/v8/release"
)

// ReleasedPages returns the pages from which V8 has moved or freed all objects, and whose
// memory it keeps for later, by address, for a V8 whose pages have such headers.
func ReleasedPages(m Memory, header *release.Pages) []Page {
	return slices.DeleteFunc(findPages(m, header), func(p Page) bool { return !p.freed })
}
