package core

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ustack/symbolize/process"
	"ustack/symbolize/space"
)

const (
	maxProcFile = 1 << 20 // bytes of the small files of /proc; the command line may be of any length
	maxArgs     = 79      // bytes of the command line in a core
)

// Info is what a core says about its process as a whole.
type Info struct {
	PID, Parent int
	UID, GID    uint32
	Comm        string // at most 15 bytes, with any values
	Args        string // the command line, at most 79 bytes

	group, session, nice int
	state                byte
	flags                uint64
}

// readInfo reads the Info of a live process.
func readInfo(pid int) (Info, error) {
	stat, err := readProc(pid, "stat")
	if err != nil {
		return Info{}, err
	}
	info, err := parseStat(stat)
	if err != nil {
		return Info{}, fault(pid, "read stat of", err)
	}
	args, err := readProc(pid, "cmdline")
	if err != nil {
		return Info{}, err
	}
	args = bytes.ReplaceAll(bytes.TrimRight(args, "\x00"), []byte{0}, []byte{' '})
	info.Args = string(args[:min(len(args), maxArgs)])
	status, err := readProc(pid, "status")
	if err != nil {
		return Info{}, err
	}
	info.UID, info.GID = identity(status, "Uid:"), identity(status, "Gid:")
	return info, nil
}

// parseStat parses a stat file: "pid (comm) state parent …". The name may
// contain any byte, including parentheses.
func parseStat(stat []byte) (Info, error) {
	first, last := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if first < 0 || last < first {
		return Info{}, fmt.Errorf("no name in %q", stat)
	}
	fields := strings.Fields(string(stat[last+1:]))
	const state, parent, group, session, flags, nice = 0, 1, 2, 3, 6, 16
	if len(fields) <= nice {
		return Info{}, fmt.Errorf("it ends after %d fields", len(fields)+2)
	}
	info := Info{Comm: string(stat[first+1 : last]), state: fields[state][0]}
	var err error
	for _, number := range []struct {
		to   *int
		text string
	}{
		{&info.PID, strings.TrimSpace(string(stat[:first]))},
		{&info.Parent, fields[parent]},
		{&info.group, fields[group]},
		{&info.session, fields[session]},
		{&info.nice, fields[nice]},
	} {
		if *number.to, err = strconv.Atoi(number.text); err != nil {
			return Info{}, err
		}
	}
	info.flags, err = strconv.ParseUint(fields[flags], 10, 64)
	return info, err
}

// identity returns the real user or group after key in a status file.
func identity(status []byte, key string) uint32 {
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == key {
			id, _ := strconv.ParseUint(fields[1], 10, 32)
			return uint32(id)
		}
	}
	return 0
}

// readProc reads a small file in a process's directory in /proc, or its start.
func readProc(pid int, name string) ([]byte, error) {
	f, err := openProc(pid, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxProcFile))
	if err != nil {
		return nil, fault(pid, "read "+name+" of", err)
	}
	return text, nil
}

// Auxv returns a live process's auxiliary vector.
func Auxv(pid int) ([]space.Aux, error) {
	data, err := readProc(pid, "auxv")
	if err != nil {
		return nil, err
	}
	return parseAuxv(data), nil
}

// parseAuxv parses an auxiliary vector up to its end mark.
func parseAuxv(data []byte) []space.Aux {
	const size = 16
	var all []space.Aux
	for pair := range slices.Chunk(data, size) {
		if len(pair) < size {
			break
		}
		a := space.Aux{Type: binary.LittleEndian.Uint64(pair), Value: binary.LittleEndian.Uint64(pair[8:])}
		if a.Type == 0 {
			break
		}
		all = append(all, a)
	}
	return all
}

// openProc opens a file in a process's directory in /proc.
func openProc(pid int, name string) (*os.File, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		return nil, fault(pid, "open "+name+" of", err)
	}
	return f, nil
}

// fault says what was attempted on a process and why it failed, with the errors
// of package process where they apply. If a process is gone, reading its memory
// returns end of file at once.
func fault(pid int, action string, err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ESRCH):
		return fmt.Errorf("process %d: %w", pid, process.ErrGone)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		err = process.ErrPermission
	}
	return fmt.Errorf("%s process %d: %w", action, pid, err)
}
