package space

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// A Part is a range of addresses that maps a module's file.
type Part struct {
	Mapping
	Module *Module
}

// Regions returns the process's mappings, by address.
func (s *Space) Regions() []Region { return s.regions }

// NextData returns the first address, from address on, at which the memory may hold
// something other than zeros; ok is false if only zeros follow.
func (s *Space) NextData(address uint64) (next uint64, ok bool) { return s.source.NextData(address) }

// Prefetch has the page at address read if its source is a Prefetcher, and does not wait for it.
func (s *Space) Prefetch(address uint64) {
	if source, ok := s.source.(Prefetcher); ok {
		source.Prefetch(address)
	}
}

// ReadAt fills p with the process's memory at address: from the core or, if the core
// leaves it out, from the file that was mapped there. The count is below len(p) only
// with an error.
func (s *Space) ReadAt(p []byte, address uint64) (int, error) {
	done := 0
	for done < len(p) {
		n, err := s.source.ReadAt(p[done:], address+uint64(done))
		done += n
		if err == nil || !errors.Is(err, ErrLeftOut) && !errors.Is(err, ErrUnmapped) {
			return done, err
		}
		n, fileErr := s.readFile(p[done:], address+uint64(done))
		if errors.Is(fileErr, ErrUnmapped) && errors.Is(err, ErrUnmapped) {
			return done, err // that says it all
		}
		if fileErr != nil {
			return done, errors.Join(err, fileErr)
		}
		done += n
	}
	return done, nil
}

// readFile fills p from the file mapped at address, as far as the mapping reaches.
func (s *Space) readFile(p []byte, address uint64) (int, error) {
	at, ok := s.Part(address)
	if !ok {
		return 0, fmt.Errorf("read memory at %#x: %w", address, ErrUnmapped)
	}
	if at.Module.file == nil {
		return 0, at.Module.Err
	}
	p = p[:min(uint64(len(p)), at.End-address)]
	n, err := at.Module.file.ReadAt(p, int64(address-at.Start+at.Offset))
	if n == len(p) || n > 0 {
		return n, nil
	}
	return 0, fmt.Errorf("read %s: %w", at.Module.found, err)
}

// Part returns the part of a module that contains address.
func (s *Space) Part(address uint64) (Part, bool) {
	at, found := slices.BinarySearchFunc(s.parts, address, func(p Part, address uint64) int {
		return compareRange(p.Start, p.End, address)
	})
	if !found {
		return Part{}, false
	}
	return s.parts[at], true
}

// Region returns the region that contains address.
func (s *Space) Region(address uint64) (Region, bool) {
	at, found := slices.BinarySearchFunc(s.regions, address, func(r Region, address uint64) int {
		return compareRange(r.Start, r.End, address)
	})
	if !found {
		return Region{}, false
	}
	return s.regions[at], true
}

// compareRange returns 0 if address is in [start, end), otherwise on which side of it
// the range is.
func compareRange(start, end, address uint64) int {
	switch {
	case end <= address:
		return -1
	case start > address:
		return 1
	}
	return 0
}

// Word reads the word at an address.
func (s *Space) Word(address uint64) (uint64, error) {
	var b [8]byte
	_, err := s.ReadAt(b[:], address)
	return binary.LittleEndian.Uint64(b[:]), err
}

const (
	wordSize    = 8
	searchBlock = 1 << 20 // bytes read at a time
)

// WritableWords yields the words of memory that the process could write to, with their
// addresses, until ctx is done. It leaves out what cannot be read, and most zeros.
func (s *Space) WritableWords(ctx context.Context) iter.Seq2[uint64, uint64] {
	return func(yield func(address, word uint64) bool) {
		block := make([]byte, searchBlock)
		for _, r := range s.regions {
			for at := r.Start; r.Write && at < r.End && ctx.Err() == nil; at += searchBlock {
				next, ok := s.NextData(at)
				if !ok {
					break
				}
				if at = max(at, next&^(wordSize-1)); at >= r.End {
					break
				}
				n, _ := s.ReadAt(block[:min(searchBlock, r.End-at)], at)
				for i := 0; i+wordSize <= n; i += wordSize {
					if !yield(at+uint64(i), binary.LittleEndian.Uint64(block[i:])) {
						return
					}
				}
			}
		}
	}
}
