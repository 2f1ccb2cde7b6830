package core

import (
	"cmp"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"ustack/symbolize/space"
	"ustack/tools/descriptors"

	"golang.org/x/sys/unix"
)

const (
	maxSegments = 1 << 20 // program headers read; by default, a process has 65,530 mappings at most
	maxNotes    = 1 << 28 // bytes of notes read; those of 1000 threads take some 4 MB
	bulk        = 1 << 16 // bytes of a read after which the file's pages are released
	smallRead   = 1 << 12 // bytes of a read up to which the mapped file serves it
)

// ErrCutShort is a cause that callers of ReadAt distinguish, besides space.ErrUnmapped
// and space.ErrLeftOut.
var ErrCutShort = errors.New("the core is cut short (was there a size limit, or no space?)")

// A File is an open core. Its methods may be called concurrently, but not after
// Close. Callers must not modify what they return.
type File struct {
	data     []byte                               // the file, mapped
	file     *os.File                             // likewise, for large reads; nil: there is only data
	extents  []span                               // of offsets at which the file has data: the rest are holes
	segments []segment                            // by address
	recent   [recentParts]atomic.Pointer[segment] // by part of memory
	machine  elf.Machine

	threads  []Thread
	mappings []space.Mapping
	auxv     []space.Aux
	info     Info
	note     []byte
	damage   error // of a compressed file
	resident []Run // nil if the core does not say

	descriptors *descriptors.List // likewise
}

// OpenOptions say how to open a core. The zero value is useful.
type OpenOptions struct {
	Progress func(done, total uint64) // called while the file is unpacked, with bytes of it; may be nil
}

// Open opens an ELF core. A core compressed with zstd, lz4, gzip or xz, as systemd-coredump
// keeps them, is unpacked into an unnamed file in the directory for temporary files, which needs
// room for the memory that the process used. It ends with ctx. The file must not change while it
// is open.
func Open(ctx context.Context, path string, o OpenOptions) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open core: %w", err)
	}
	defer file.Close()
	f, err := openFile(ctx, file, o)
	if err != nil {
		return nil, fmt.Errorf("open core %s: %w", path, err)
	}
	return f, nil
}

// openFile opens the core in file, which may be closed afterwards.
func openFile(ctx context.Context, file *os.File, o OpenOptions) (*File, error) {
	file, damage, err := unpacked(ctx, file, o)
	if err != nil {
		return nil, err
	}
	f, err := mapFile(file)
	if err != nil {
		return nil, errors.Join(err, damage, file.Close())
	}
	f.damage = damage
	return f, nil
}

// mapFile opens the core in file, which the result owns unless there is an error. Nothing is read
// ahead of small reads: on a large core they are far apart, and a machine that reads some MB ahead of
// each reads all of it.
func mapFile(file *os.File) (*File, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	data, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	_ = unix.Madvise(data, unix.MADV_RANDOM) // only makes it faster
	f, err := parse(data)
	if err != nil {
		return nil, errors.Join(err, unix.Munmap(data))
	}
	f.file, f.extents = file, dataOf(file, uint64(len(data)))
	return f, nil
}

// Damage returns why a compressed core could not be unpacked to its end, or nil.
func (f *File) Damage() error { return f.damage }

// Close releases the file.
func (f *File) Close() error { return errors.Join(unix.Munmap(f.data), f.file.Close()) }

// Machine returns the architecture that the process ran on.
func (f *File) Machine() elf.Machine { return f.machine }

// Threads returns the process's threads, starting with the one that the core is
// about.
func (f *File) Threads() []Thread { return f.threads }

// Mappings returns the files that the process had mapped, by address.
func (f *File) Mappings() []space.Mapping { return f.mappings }

// Auxv returns the auxiliary vector.
func (f *File) Auxv() []space.Aux { return f.auxv }

// Info returns what the core says about the process as a whole.
func (f *File) Info() Info { return f.info }

// Note returns the Options.Note that the core was written with, or nil if it
// has none.
func (f *File) Note() []byte { return f.note }

// ReadAt fills p with the process's memory at address. Memory that the process
// never touched reads as zeros. The count is below len(p) only with an error.
func (f *File) ReadAt(p []byte, address uint64) (int, error) {
	done := 0
	for done < len(p) {
		n, err := f.readSome(p[done:], address+uint64(done))
		if err != nil {
			return done, fmt.Errorf("read %d bytes at %#x: %w", len(p), address+uint64(done), err)
		}
		done += n
	}
	return done, nil
}

// readSome reads at least one byte.
func (f *File) readSome(p []byte, address uint64) (int, error) {
	s := f.segment(address)
	if s == nil {
		return 0, space.ErrUnmapped
	}
	within := address - s.start
	p = p[:min(uint64(len(p)), s.end-address)]
	if within < s.size {
		p = p[:min(uint64(len(p)), s.size-within)]
		return f.copyFrom(p, s.offset+within)
	}
	m, found := f.mapping(address)
	if found {
		return 0, fmt.Errorf("%w: %s", space.ErrLeftOut, m.Path)
	}
	clear(p)
	return len(p), nil
}

var _ space.Prefetcher = (*File)(nil)

// Prefetch has the page at address read from the file, and does not wait for it.
func (f *File) Prefetch(address uint64) {
	s := f.segment(address)
	if s == nil || address-s.start >= s.size {
		return
	}
	size := uint64(os.Getpagesize())
	at := (s.offset + address - s.start) &^ (size - 1)
	if at+size <= uint64(len(f.data)) {
		_ = unix.Madvise(f.data[at:at+size], unix.MADV_WILLNEED) // only makes it faster
	}
}

// recentParts bounds the parts of memory whose segments are remembered: of partSize bytes, as V8's
// pages have. 1 GB of neighbouring parts fit.
const (
	recentParts = 1 << 12
	partSize    = 256 << 10
)

// segment returns the segment that contains address, or nil.
func (f *File) segment(address uint64) *segment {
	recent := &f.recent[address/partSize%recentParts]
	if s := recent.Load(); s != nil && within(s.span, address) == 0 {
		return s
	}
	i, found := slices.BinarySearchFunc(f.segments, address, compareSegment)
	if !found {
		return nil
	}
	recent.Store(&f.segments[i])
	return &f.segments[i]
}

// copyFrom fills p from the file at offset. A large read is not served by the mapping, so that a
// pass through all of a large core does not count as memory in use, and is read ahead.
func (f *File) copyFrom(p []byte, offset uint64) (n int, err error) {
	if offset >= uint64(len(f.data)) {
		return 0, ErrCutShort
	}
	if len(p) > smallRead && f.file != nil {
		p = p[:min(uint64(len(p)), uint64(len(f.data))-offset)]
		if n, err = f.file.ReadAt(p, int64(offset)); n == 0 {
			return 0, err
		}
		if n >= bulk {
			f.release(offset, uint64(n))
		}
		return n, nil
	}
	// If the file has been truncated, or the disk fails, the kernel sends a
	// signal.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			n, err = 0, fmt.Errorf("read the file at %#x: %v", offset, fault)
		}
	}()
	return copy(p, f.data[offset:]), nil
}

// release unmaps the whole pages of a part of the file that small reads have mapped. They are mapped
// again by the next one.
func (f *File) release(offset, size uint64) {
	page := pageSize()
	start, end := (offset+page-1)/page*page, (offset+size)/page*page
	if start < end {
		_ = unix.Madvise(f.data[start:end], unix.MADV_DONTNEED) // only saves memory
	}
}

// mapping returns the file mapping that contains address.
func (f *File) mapping(address uint64) (space.Mapping, bool) {
	i, found := slices.BinarySearchFunc(f.mappings, address, func(m space.Mapping, address uint64) int {
		return within(span{m.Start, m.End}, address)
	})
	if !found {
		return space.Mapping{}, false
	}
	return f.mappings[i], true
}

func compareSegment(s segment, address uint64) int { return within(s.span, address) }

// within returns 0 if address lies in s; otherwise its sign says on which side
// s lies.
func within(s span, address uint64) int {
	switch {
	case s.end <= address:
		return -1
	case s.start > address:
		return 1
	}
	return 0
}

// unpacked returns another descriptor of the file, or of one with its unpacked contents. The damage
// is that of a compressed file.
func unpacked(ctx context.Context, file *os.File, o OpenOptions) (to *os.File, damage, err error) {
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, errors.New("not a regular file")
	}
	var magic [maxMagic]byte
	if _, err := file.ReadAt(magic[:], 0); err != nil {
		return nil, nil, errors.New("not a core: too short")
	}
	if p := packingOf(magic[:]); p != nil {
		return unpack(ctx, p, file, info.Size(), o)
	}
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fd), file.Name()), nil, nil
}

// parse reads the headers and the notes of a core.
func parse(data []byte) (*File, error) {
	f := &File{data: data, extents: []span{{0, uint64(len(data))}}}
	var header elf.Header64
	if _, err := binary.Decode(data, binary.LittleEndian, &header); err != nil {
		return nil, errors.New("not a core: too short")
	}
	switch {
	case string(header.Ident[:4]) != elf.ELFMAG:
		return nil, errors.New("not a core: no ELF file")
	case header.Ident[elf.EI_CLASS] != byte(elf.ELFCLASS64), header.Ident[elf.EI_DATA] != byte(elf.ELFDATA2LSB):
		return nil, errors.New("a core of another kind of machine: only 64 bits, little endian are understood")
	case elf.Type(header.Type) != elf.ET_CORE:
		return nil, fmt.Errorf("not a core, but %v", elf.Type(header.Type))
	}
	f.machine = elf.Machine(header.Machine)
	programs, err := readPrograms(data, header)
	if err != nil {
		return nil, err
	}
	budget := uint64(maxNotes)
	for _, p := range programs {
		switch elf.ProgType(p.Type) {
		case elf.PT_LOAD:
			if p.Memsz > 0 && p.Vaddr+p.Memsz > p.Vaddr && p.Off+p.Filesz >= p.Off {
				f.segments = append(f.segments, segment{
					span: span{p.Vaddr, p.Vaddr + p.Memsz}, flags: elf.ProgFlag(p.Flags),
					size: min(p.Filesz, p.Memsz), offset: p.Off,
				})
			}
		case elf.PT_NOTE:
			notes := cut(data, p.Off, min(p.Filesz, budget))
			budget -= uint64(len(notes))
			f.readNotes(notes)
		}
	}
	slices.SortFunc(f.segments, func(a, b segment) int { return cmp.Compare(a.start, b.start) })
	return f, nil
}

// readPrograms returns the program headers.
func readPrograms(data []byte, header elf.Header64) ([]elf.Prog64, error) {
	count := uint64(header.Phnum)
	if header.Phnum == manyHeaders {
		var first elf.Section64
		_, err := binary.Decode(cut(data, header.Shoff, 64), binary.LittleEndian, &first)
		if header.Shoff == 0 || err != nil {
			return nil, errors.New("a damaged core: the count of its segments is not there")
		}
		count = uint64(first.Info)
	}
	const size = 56
	if header.Phentsize != size || count > maxSegments {
		return nil, fmt.Errorf("a damaged core: %d segments, described in %d bytes each", count, header.Phentsize)
	}
	table := cut(data, header.Phoff, count*size)
	if uint64(len(table)) < count*size {
		return nil, ErrCutShort
	}
	programs := make([]elf.Prog64, count)
	_, err := binary.Decode(table, binary.LittleEndian, programs)
	return programs, err
}

// cut returns at most size bytes of data, starting at offset.
func cut(data []byte, offset, size uint64) []byte {
	if offset >= uint64(len(data)) {
		return nil
	}
	data = data[offset:]
	return data[:min(size, uint64(len(data)))]
}
