package space

// PageSize is how many bytes Pages reads at once.
const PageSize = 4 << 10

type memory interface {
	ReadAt(p []byte, address uint64) (int, error)
}

// Pages is memory that is read by the page, and kept until Forget: what is read of an object
// is mostly close together, and each read of a process's memory is a system call or two.
type Pages struct {
	from  memory
	limit int
	kept  map[uint64][]byte // by address
}

// NewPages returns the memory of from, which is at least a ReadAt of a process's addresses. It
// keeps at most limit pages.
func NewPages(from memory, limit int) *Pages {
	return &Pages{from, limit, make(map[uint64][]byte)}
}

// ReadAt reads at an address: from the pages, except for what extends over several.
func (s *Pages) ReadAt(p []byte, address uint64) (int, error) {
	start := address &^ (PageSize - 1)
	within := int(address - start)
	if within+len(p) <= PageSize {
		if page := s.Page(start); within+len(p) <= len(page) {
			return copy(p, page[within:]), nil
		}
	}
	return s.from.ReadAt(p, address)
}

// Page returns the page at an address, as far as it can be read.
func (s *Pages) Page(start uint64) []byte {
	if page, ok := s.kept[start]; ok {
		return page
	}
	return s.Reread(start)
}

// Reread returns what the page at an address holds now.
func (s *Pages) Reread(start uint64) []byte {
	page := make([]byte, PageSize)
	n, _ := s.from.ReadAt(page, start) // what cannot be read has length 0
	if len(s.kept) >= s.limit {
		clear(s.kept)
	}
	s.kept[start] = page[:n]
	return s.kept[start]
}

// Forget drops the pages: the process may have changed them.
func (s *Pages) Forget() { clear(s.kept) }
