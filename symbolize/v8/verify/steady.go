package verify

import (
	"bytes"

	"ustack/symbolize/v8/heap"
)

const (
	blockSize = 1 << 12 // bytes read at once
	maxBlocks = 1 << 13 // kept
	maxReads  = 1 << 12 // blocks that one examination is known to depend on
	maxTries  = 4       // of an examination of objects that change meanwhile
)

// A steadyMemory is the memory of a process that may run meanwhile. It reads each block
// once, and tells whether a block still holds what was read.
type steadyMemory struct {
	heap.Memory
	blocks map[uint64][]byte // by address; shorter than blockSize where not all can be read
	used   map[uint64]bool   // blocks that the current examination depends on
}

func newSteadyMemory(m heap.Memory) *steadyMemory {
	return &steadyMemory{Memory: m, blocks: map[uint64][]byte{}, used: map[uint64]bool{}}
}

// ReadAt reads at an address: from blocks, except for what extends over several.
func (m *steadyMemory) ReadAt(p []byte, address uint64) (int, error) {
	start := address &^ (blockSize - 1)
	within := int(address - start)
	if within+len(p) > blockSize {
		return m.Memory.ReadAt(p, address)
	}
	if b := m.block(start); within+len(p) <= len(b) {
		return copy(p, b[within:]), nil
	}
	return m.Memory.ReadAt(p, address)
}

// block returns the block at an address, as far as it can be read.
func (m *steadyMemory) block(start uint64) []byte {
	if len(m.used) < maxReads {
		m.used[start] = true
	}
	if b, ok := m.blocks[start]; ok {
		return b
	}
	if len(m.blocks) >= maxBlocks {
		clear(m.blocks)
	}
	m.blocks[start] = m.fresh(start)
	return m.blocks[start]
}

func (m *steadyMemory) fresh(start uint64) []byte {
	b := make([]byte, blockSize)
	n, _ := m.Memory.ReadAt(b, start) // what cannot be read has length 0
	return b[:n]
}

// examine runs a check of objects until it succeeds, or fails on memory that did not
// change. It returns no error for objects that change each time: steady is false.
func (m *steadyMemory) examine(check func() error) (steady bool, err error) {
	for range maxTries {
		clear(m.used)
		if err = check(); err == nil {
			return true, nil
		}
		if m.unchanged() {
			return true, err
		}
	}
	return false, nil
}

// unchanged reports whether the blocks that were used still hold the same, and reads
// those again that do not.
func (m *steadyMemory) unchanged() bool {
	same := true
	for start := range m.used {
		now := m.fresh(start)
		if !bytes.Equal(now, m.blocks[start]) {
			m.blocks[start] = now
			same = false
		}
	}
	return same
}
