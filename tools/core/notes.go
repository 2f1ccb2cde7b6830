package core

import (
	"bytes"
	"encoding/binary"
	"strings"

	"ustack/symbolize/process"
)

// Types of notes, of owner "CORE" or "LINUX" (include/uapi/linux/elf.h).
const (
	notePRStatus = 1
	notePRFPReg  = 2
	notePRPSInfo = 3
	noteAuxv     = 6
	noteFile     = 0x46494c45
	noteSiginfo  = 0x53494749
	noteXState   = 0x202 // NT_X86_XSTATE
	noteTLS      = 0x401 // NT_ARM_TLS
	noteCall     = 0x404 // NT_ARM_SYSTEM_CALL
	notePACMask  = 0x406 // NT_ARM_PAC_MASK
)

// The owner and the type of the note that contains Options.Note.
const (
	noteOwner = "ustack"
	noteEvent = 1
)

const noteAlign = 4 // bytes

// prStatus is struct elf_prstatus up to its registers, which pr_fpvalid
// follows.
type prStatus struct {
	Signo, Code, Errno        int32
	Cursig                    int16
	_                         int16
	Pending, Held             uint64
	PID, Parent, Group, Sid   int32
	User, System, CUser, CSys [2]uint64 // times: not set
}

// prPSInfo is struct elf_prpsinfo.
type prPSInfo struct {
	State                   uint8
	Letter                  uint8
	Zombie                  uint8
	Nice                    int8
	_                       uint32
	Flags                   uint64
	UID, GID                uint32
	PID, Parent, Group, Sid int32
	Name                    [16]byte
	Args                    [80]byte
}

// notes builds the notes of a core.
type notes struct{ bytes.Buffer }

// add appends a note of an owner; its data are the concatenated parts, byte
// slices or values of fixed size.
func (n *notes) add(owner string, kind uint32, parts ...any) {
	var data bytes.Buffer
	for _, part := range parts {
		binary.Write(&data, binary.LittleEndian, part) // writing to a Buffer cannot fail
	}
	binary.Write(n, binary.LittleEndian, [3]uint32{uint32(len(owner)) + 1, uint32(data.Len()), kind})
	n.WriteString(owner + "\x00")
	n.pad()
	n.Write(data.Bytes())
	n.pad()
}

func (n *notes) pad() { n.Write(make([]byte, -n.Len()&(noteAlign-1))) }

// addThread appends what debuggers need about a thread. The status comes first,
// because debuggers recognise by it where a thread's notes begin.
func (n *notes) addThread(t Thread, of Info) {
	status := prStatus{
		Signo: int32(t.Signal), Cursig: int16(t.Signal), Pending: t.Pending, Held: t.Held,
		PID: int32(t.TID), Parent: int32(of.Parent), Group: int32(of.group), Sid: int32(of.session),
	}
	valid := [2]int32{} // pr_fpvalid, and padding
	if len(t.Float) > 0 {
		valid[0] = 1
	}
	n.add("CORE", notePRStatus, status, t.General, valid)
	if len(t.Float) > 0 {
		n.add("CORE", notePRFPReg, t.Float)
	}
	for _, set := range t.special(Machine()) {
		if len(*set.to) > 0 {
			n.add("LINUX", set.note, *set.to)
		}
	}
	if len(t.Siginfo) > 0 {
		n.add("CORE", noteSiginfo, t.Siginfo)
	}
}

// addInfo appends what is known about the process as a whole.
func (n *notes) addInfo(of Info) {
	info := prPSInfo{
		State: uint8(max(0, strings.IndexByte("RSDTZW", of.state))), Letter: of.state, Nice: int8(of.nice),
		Flags: of.flags, UID: of.UID, GID: of.GID,
		PID: int32(of.PID), Parent: int32(of.Parent), Group: int32(of.group), Sid: int32(of.session),
	}
	copy(info.Name[:len(info.Name)-1], of.Comm)
	copy(info.Args[:len(info.Args)-1], of.Args)
	n.add("CORE", notePRPSInfo, info)
}

// addFiles appends which mappings map which part of which file.
func (n *notes) addFiles(mappings []process.Mapping) {
	size := pageSize()
	header := []uint64{0, size}
	var names bytes.Buffer
	for _, m := range mappings {
		if !m.File() {
			continue
		}
		header[0]++
		header = append(header, m.Start, m.End, m.Offset/size)
		names.WriteString(m.Path)
		if m.Deleted {
			names.WriteString(deleted)
		}
		names.WriteByte(0)
	}
	n.add("CORE", noteFile, header, names.Bytes())
}

const deleted = " (deleted)" // the kernel's suffix for the path of a removed file
