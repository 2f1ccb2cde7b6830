package space

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Limits on what the kernel puts on the first stack.
const (
	maxAuxGap   = 4 << 10 // bytes between the auxiliary vector and what it points to
	maxPointers = 1 << 17 // arguments and variables; the kernel's limit is far above what anyone uses
	maxString   = 128 << 10
)

// Arguments returns the program's arguments as the kernel passed them, the program's
// name first. A program may have overwritten them since: setting process.title does.
func (s *Space) Arguments() ([]string, error) {
	arguments, _, err := s.started()
	return arguments, err
}

// Environment returns the program's variables, as NAME=VALUE; see Arguments.
func (s *Space) Environment() ([]string, error) {
	_, environment, err := s.started()
	return environment, err
}

// started reads what is below the auxiliary vector on the first stack: the number
// of arguments, pointers to them, 0, pointers to variables, 0.
func (s *Space) started() (arguments, environment []string, err error) {
	vector, err := s.auxAddress()
	if err != nil {
		return nil, nil, err
	}
	at := vector - 8
	variables, at, err := s.pointersBefore(at, func(w uint64, _ int) bool { return w == 0 })
	if err != nil {
		return nil, nil, err
	}
	values, _, err := s.pointersBefore(at, func(w uint64, n int) bool { return w == uint64(n) })
	if err != nil {
		return nil, nil, err
	}
	if arguments, err = s.strings(values); err != nil {
		return nil, nil, err
	}
	environment, err = s.strings(variables)
	return arguments, environment, err
}

// auxAddress returns the auxiliary vector's address in memory.
func (s *Space) auxAddress() (uint64, error) {
	random, ok := s.aux(auxRoom)
	if !ok || random < maxAuxGap {
		return 0, errors.New("find the program's arguments: the core has no auxiliary vector")
	}
	var vector []byte
	for _, a := range s.auxv {
		vector = binary.LittleEndian.AppendUint64(vector, a.Type)
		vector = binary.LittleEndian.AppendUint64(vector, a.Value)
	}
	stack := make([]byte, maxAuxGap)
	if _, err := s.ReadAt(stack, random-maxAuxGap); err != nil {
		return 0, fmt.Errorf("find the program's arguments: %w", err)
	}
	at := bytes.LastIndex(stack, vector)
	if at < 0 {
		return 0, fmt.Errorf("find the program's arguments: no auxiliary vector before %#x", random)
	}
	return random - maxAuxGap + uint64(at), nil
}

// pointersBefore returns the words before the 0 at address, back to the first one that
// isLast accepts, and that word's address. isLast gets a word and how many pointers
// have been read so far.
func (s *Space) pointersBefore(address uint64, isLast func(w uint64, n int) bool) (pointers []uint64, last uint64, err error) {
	for n := 0; n < maxPointers; n++ {
		address -= 8
		w, err := s.Word(address)
		if err != nil {
			return nil, 0, fmt.Errorf("read the program's arguments: %w", err)
		}
		if isLast(w, n) {
			slices.Reverse(pointers)
			return pointers, address, nil
		}
		pointers = append(pointers, w)
	}
	return nil, 0, fmt.Errorf("read the program's arguments: more than %d", maxPointers)
}

func (s *Space) strings(pointers []uint64) ([]string, error) {
	all := make([]string, 0, len(pointers))
	for _, p := range pointers {
		text, err := s.CString(p)
		if err != nil {
			return all, err
		}
		all = append(all, text)
	}
	return all, nil
}

// CString reads a zero-terminated string of up to maxString bytes.
func (s *Space) CString(address uint64) (string, error) {
	const step = 256
	var text []byte
	for len(text) < maxString {
		b := make([]byte, step-address%step) // never across a page that may be missing
		if _, err := s.ReadAt(b, address); err != nil {
			return "", fmt.Errorf("read string at %#x: %w", address, err)
		}
		if end := bytes.IndexByte(b, 0); end >= 0 {
			return string(append(text, b[:end]...)), nil
		}
		text = append(text, b...)
		address += uint64(len(b))
	}
	return string(text), nil
}
