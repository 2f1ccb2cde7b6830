package elfsym

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"ustack/symbolize/contain"
)

// A USDT is a static probe that a file's author placed in it (SystemTap's sys/sdt.h): a nop, and
// a note that says where it is.
type USDT struct {
	Provider, Name string
	Arguments      string // where they are, as "-4@%edi 8@16(%rbp)"
	Offset         uint64 // of the nop, from the file's start
	Semaphore      uint64 // offset of the counter that enables the probe; 0: it is always enabled
}

// Bounds of what a file may say.
const (
	maxUSDTNotes = 4 << 20 // bytes
	maxUSDTs     = 1 << 16
)

// The note's owner and type, and the section whose address tells whether addresses in notes were
// changed after linking (systemtap, stap-probe.h).
const (
	usdtOwner = "stapsdt\x00"
	usdtType  = 3
	usdtBase  = ".stapsdt.base"
	usdtNotes = ".note.stapsdt"
)

// USDTs returns the file's static probes, in its order; none if it has no notes of them.
func USDTs(r io.ReaderAt) (all []USDT, err error) {
	defer contain.Panic(&err, "read static probes")
	e, err := Parse(r)
	if err != nil {
		return nil, err
	}
	notes := e.Section(usdtNotes)
	if notes == nil {
		return nil, nil
	}
	if notes.Size > maxUSDTNotes {
		return nil, fmt.Errorf("read %s: %d bytes are more than %d", usdtNotes, notes.Size, maxUSDTNotes)
	}
	data := make([]byte, notes.Size)
	if _, err := notes.ReadAt(data, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", usdtNotes, err)
	}
	for len(data) > 0 && len(all) < maxUSDTs {
		var note []byte
		note, data = cutNote(e.ByteOrder, data)
		if u, ok := parseUSDT(e, note); ok {
			all = append(all, u)
		}
	}
	return all, nil
}

// cutNote returns what the first note of data describes, if it is a static probe, and what
// follows the note.
func cutNote(order binary.ByteOrder, data []byte) (description, rest []byte) {
	const head, alignment = 12, 4
	if len(data) < head {
		return nil, nil
	}
	owner, size, kind := order.Uint32(data), order.Uint32(data[4:]), order.Uint32(data[8:])
	align := func(n uint32) uint64 { return (uint64(n) + alignment - 1) &^ (alignment - 1) }
	from := head + align(owner)
	to := from + uint64(size)
	if to > uint64(len(data)) {
		return nil, nil
	}
	if kind == usdtType && string(data[head:min(head+uint64(owner), from)]) == usdtOwner {
		description = data[from:to]
	}
	return description, data[min(from+align(size), uint64(len(data))):]
}

// parseUSDT reads a note: three addresses and three texts.
func parseUSDT(e *elf.File, note []byte) (u USDT, ok bool) {
	const addresses, word = 3, 8
	if e.Class != elf.ELFCLASS64 || len(note) < addresses*word {
		return u, false
	}
	location, base, semaphore := e.ByteOrder.Uint64(note), e.ByteOrder.Uint64(note[word:]), e.ByteOrder.Uint64(note[2*word:])
	texts := bytes.SplitN(note[addresses*word:], []byte{0}, addresses+1)
	if len(texts) <= addresses {
		return u, false
	}
	u.Provider, u.Name, u.Arguments = string(texts[0]), string(texts[1]), string(texts[2])
	moved := uint64(0) // by prelink
	if s := e.Section(usdtBase); s != nil && base != 0 {
		moved = s.Addr - base
	}
	if u.Offset, ok = offsetOf(e, location+moved); !ok {
		return u, false
	}
	if semaphore != 0 {
		u.Semaphore, ok = offsetOf(e, semaphore+moved)
	}
	return u, ok
}

// offsetOf returns where the file has what it maps at an address.
func offsetOf(e *elf.File, address uint64) (uint64, bool) {
	for _, p := range e.Progs {
		if p.Type == elf.PT_LOAD && address >= p.Vaddr && address-p.Vaddr < p.Filesz {
			return address - p.Vaddr + p.Off, true
		}
	}
	return 0, false
}
