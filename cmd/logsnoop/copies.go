package main

import (
	"hash/maphash"

	"ustack/tools/logsnoop"
)

// copies finds records that come a second time: bunyan's probe has a record, and the record is
// written, which may come first. Equal records may be logged within a millisecond: as many of them
// come each way, and so they are counted. The zero value has seen nothing.
type copies struct {
	seed maphash.Seed
	// counts are how many records came, by what countOf returns; older are those before.
	counts, older map[uint64]uint32
}

// maxCopies bounds counts; a record has three.
const maxCopies = 1 << 18

// What is counted of a record.
const (
	ofProbe = iota
	ofFile  // in one file
	ofFiles // in the file that has most
)

// isCopy reports whether the record, whose line e has, was passed on when it came the other way.
func (c *copies) isCopy(e *logsnoop.Event, line string) bool {
	if c.counts == nil {
		c.seed, c.counts = maphash.MakeSeed(), make(map[uint64]uint32)
	}
	hash := maphash.String(c.seed, line)
	probe, files := c.countOf(ofProbe, e, hash), c.countOf(ofFiles, e, hash)
	if e.Probe != nil {
		n := c.get(probe) + 1
		c.set(probe, n)
		return n <= c.get(files)
	}
	file := c.countOf(ofFile, e, hash)
	n := c.get(file) + 1
	c.set(file, n)
	c.set(files, max(n, c.get(files)))
	return n <= c.get(probe)
}

// countOf returns which count is that of the record, whose line has this hash.
func (c *copies) countOf(what int, e *logsnoop.Event, line uint64) uint64 {
	key := struct {
		what, pid, fd int
		line          uint64
	}{what: what, pid: e.PID, line: line}
	if what == ofFile {
		key.fd = e.FD
	}
	return maphash.Comparable(c.seed, key)
}

func (c *copies) get(count uint64) uint32 {
	if n, ok := c.counts[count]; ok {
		return n
	}
	return c.older[count]
}

func (c *copies) set(count uint64, n uint32) {
	if len(c.counts) >= maxCopies {
		c.counts, c.older = make(map[uint64]uint32), c.counts
	}
	c.counts[count] = n
}
