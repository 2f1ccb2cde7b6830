package core

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"ustack/symbolize/space"

	"golang.org/x/sys/unix"
)

// readNotes parses the known notes of a core. A damaged note, and everything
// after it, is ignored.
func (f *File) readNotes(data []byte) {
	const header = 12
	for len(data) >= header {
		nameSize := uint64(binary.LittleEndian.Uint32(data))
		descSize := uint64(binary.LittleEndian.Uint32(data[4:]))
		kind := binary.LittleEndian.Uint32(data[8:])
		data = data[header:]
		descAt := roundUp(nameSize, noteAlign)
		if descAt+descSize > uint64(len(data)) {
			return
		}
		owner := strings.TrimRight(string(data[:nameSize]), "\x00")
		f.readNote(owner, kind, data[descAt:descAt+descSize])
		data = cut(data, roundUp(descAt+descSize, noteAlign), uint64(len(data)))
	}
}

// readNote parses one note. Notes about a thread belong to the last thread
// whose status was read.
func (f *File) readNote(owner string, kind uint32, desc []byte) {
	if owner == noteOwner && kind == noteEvent {
		f.note = bytes.Clone(desc)
		return
	}
	if owner == noteOwner && kind == noteResident {
		f.readResident(desc)
		return
	}
	if owner == noteOwner && kind == noteDescriptors {
		f.readDescriptors(desc)
		return
	}
	if owner != "CORE" && owner != "LINUX" {
		return
	}
	switch kind {
	case notePRStatus:
		f.readStatus(desc)
	case notePRPSInfo:
		f.readInfo(desc)
	case noteAuxv:
		f.auxv = parseAuxv(desc)
	case noteFile:
		f.readFiles(desc)
	}
	if len(f.threads) == 0 {
		return
	}
	last := &f.threads[len(f.threads)-1]
	switch kind {
	case notePRFPReg:
		last.Float = bytes.Clone(desc)
	case noteSiginfo:
		last.Siginfo = bytes.Clone(desc)
	}
	for _, set := range last.special(f.machine) {
		if set.note == kind {
			*set.to = bytes.Clone(desc)
		}
	}
}

// readStatus starts a new thread.
func (f *File) readStatus(desc []byte) {
	var status prStatus
	const valid = 8 // pr_fpvalid, and padding
	n, err := binary.Decode(desc, binary.LittleEndian, &status)
	if err != nil || len(desc) < n+valid {
		return
	}
	f.threads = append(f.threads, Thread{
		TID: int(status.PID), General: bytes.Clone(desc[n : len(desc)-valid]),
		Signal: unix.Signal(status.Cursig), Pending: status.Pending, Held: status.Held,
	})
}

func (f *File) readInfo(desc []byte) {
	var info prPSInfo
	if _, err := binary.Decode(desc, binary.LittleEndian, &info); err != nil {
		return
	}
	name, _, _ := bytes.Cut(info.Name[:], []byte{0})
	args, _, _ := bytes.Cut(info.Args[:], []byte{0})
	f.info = Info{
		PID: int(info.PID), Parent: int(info.Parent), UID: info.UID, GID: info.GID,
		Comm: string(name), Args: string(args),
		group: int(info.Group), session: int(info.Sid), nice: int(info.Nice),
		state: info.Letter, flags: info.Flags,
	}
}

// readFiles reads which mappings map which part of which file.
func (f *File) readFiles(desc []byte) {
	const word, entry = 8, 3 * 8
	if len(desc) < 2*word {
		return
	}
	count, unit := binary.LittleEndian.Uint64(desc), binary.LittleEndian.Uint64(desc[word:])
	desc = desc[2*word:]
	if count > uint64(len(desc))/entry {
		return
	}
	table, names := desc[:count*entry], desc[count*entry:]
	mappings := make([]space.Mapping, 0, count)
	for row := range slices.Chunk(table, entry) {
		name, rest, found := bytes.Cut(names, []byte{0})
		if !found {
			return
		}
		names = rest
		m := space.Mapping{
			Start: binary.LittleEndian.Uint64(row), End: binary.LittleEndian.Uint64(row[word:]),
			Offset: binary.LittleEndian.Uint64(row[2*word:]) * unit, Path: string(name),
		}
		if m.Start < m.End {
			mappings = append(mappings, m)
		}
	}
	slices.SortFunc(mappings, func(a, b space.Mapping) int { return cmp.Compare(a.Start, b.Start) })
	f.mappings = mappings
}
