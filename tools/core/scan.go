package core

import (
	"encoding/binary"
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Bits of an entry of pagemap (Linux 4.2 and newer, for any reader).
const (
	pagePresent = 1 << 63
	pageSwapped = 1 << 62 // or under migration
	pageOfFile  = 1 << 61 // of a file or shared: not private to the mapping
)

const (
	entrySize    = 8       // bytes of pagemap per page
	pagemapBatch = 1 << 19 // bytes of pagemap read at once: covers 256 MiB of memory
)

// The ioctl PAGEMAP_SCAN and its categories (Linux 6.7, include/uapi/linux/fs.h).
const (
	pagemapScan = 0xc0606610 // _IOWR('f', 16, struct pm_scan_arg)
	isFile      = 1 << 2
	isPresent   = 1 << 3
	isSwapped   = 1 << 4
	isZeroPage  = 1 << 5 // the one page that untouched memory shares once it is read
	scanRegions = 1 << 9 // regions that one call returns; more calls may follow
)

// scanArguments is struct pm_scan_arg.
type scanArguments struct {
	size, flags, start, end, walkEnd, regions, count, maxPages uint64
	inverted, all, any, returned                               uint64
}

// scanRegion is struct page_region.
type scanRegion struct{ start, end, categories uint64 }

// A scanner finds the pages of a process that are in memory or swapped out.
type scanner struct {
	pagemap *os.File
	entries bool // the kernel has no PAGEMAP_SCAN: read the entries one by one
	buffer  []byte
	regions [scanRegions]scanRegion
}

func openScanner(pid int) (*scanner, error) {
	pagemap, err := openProc(pid, "pagemap")
	if err != nil {
		return nil, err
	}
	return &scanner{pagemap: pagemap}, nil
}

func (s *scanner) Close() error { return s.pagemap.Close() }

// pages returns the pages of the span that are in memory or swapped out; if own
// is set, only the mapping's own: anonymous, neither of a file nor shared.
func (s *scanner) pages(within span, own bool) ([]span, error) {
	if !s.entries {
		found, err := s.scan(within, own)
		if !errors.Is(err, unix.ENOTTY) && !errors.Is(err, unix.EINVAL) {
			return found, err
		}
		s.entries = true
	}
	return s.read(within, own)
}

// scan has the kernel find the pages. It omits those that map the zero page.
func (s *scanner) scan(within span, own bool) (found []span, err error) {
	skip := uint64(0)
	if own {
		skip = isFile
	}
	err = s.regionsOf(within, skip, func(r scanRegion) { found = add(found, span{r.start, r.end}) })
	return found, err
}

// regionsOf has the kernel find the pages in memory or swapped out, but for the zero page and
// those of the categories to skip. Adjacent ones of the same categories are one region.
func (s *scanner) regionsOf(within span, skip uint64, visit func(scanRegion)) error {
	a := scanArguments{
		size: uint64(unsafe.Sizeof(scanArguments{})), start: within.start, end: within.end, count: scanRegions,
		regions:  uint64(uintptr(unsafe.Pointer(&s.regions[0]))),
		inverted: isZeroPage | skip, all: isZeroPage | skip, any: isPresent | isSwapped, returned: isFile | isPresent,
	}
	for a.start < a.end {
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, s.pagemap.Fd(), pagemapScan, uintptr(unsafe.Pointer(&a)))
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return errno
		}
		for _, r := range s.regions[:n] {
			visit(r)
		}
		if a.walkEnd <= a.start {
			break
		}
		a.start = a.walkEnd
	}
	return nil
}

// read examines each page's entry.
func (s *scanner) read(within span, own bool) (found []span, err error) {
	size := pageSize()
	err = s.entriesOf(within, func(at, entry uint64) {
		if !own || entry&pageOfFile == 0 {
			found = add(found, span{at, at + size})
		}
	})
	return found, err
}

// entriesOf visits the entries of the pages in memory or swapped out.
func (s *scanner) entriesOf(within span, visit func(at, entry uint64)) error {
	if s.buffer == nil {
		s.buffer = make([]byte, pagemapBatch)
	}
	size := pageSize()
	for at := within.start; at < within.end; {
		batch := s.buffer[:min((within.end-at)/size*entrySize, pagemapBatch)]
		if _, err := s.pagemap.ReadAt(batch, int64(at/size*entrySize)); err != nil {
			return err
		}
		for ; len(batch) > 0; batch, at = batch[entrySize:], at+size {
			if entry := binary.NativeEndian.Uint64(batch); entry&(pagePresent|pageSwapped) != 0 {
				visit(at, entry)
			}
		}
	}
	return nil
}
