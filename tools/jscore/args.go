package jscore

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
func (d *Dump) Arguments() ([]string, error) {
	arguments, _, err := d.started()
	return arguments, err
}

// Environment returns the program's variables, as NAME=VALUE; see Arguments.
func (d *Dump) Environment() ([]string, error) {
	_, environment, err := d.started()
	return environment, err
}

// started reads what is below the auxiliary vector on the first stack: the number
// of arguments, pointers to them, 0, pointers to variables, 0.
func (d *Dump) started() (arguments, environment []string, err error) {
	vector, err := d.auxAddress()
	if err != nil {
		return nil, nil, err
	}
	at := vector - 8
	variables, at, err := d.pointersBefore(at, func(w uint64, _ int) bool { return w == 0 })
	if err != nil {
		return nil, nil, err
	}
	values, _, err := d.pointersBefore(at, func(w uint64, n int) bool { return w == uint64(n) })
	if err != nil {
		return nil, nil, err
	}
	if arguments, err = d.strings(values); err != nil {
		return nil, nil, err
	}
	environment, err = d.strings(variables)
	return arguments, environment, err
}

// auxAddress returns the auxiliary vector's address in memory.
func (d *Dump) auxAddress() (uint64, error) {
	random, ok := d.aux(auxRoom)
	if !ok || random < maxAuxGap {
		return 0, errors.New("find the program's arguments: the core has no auxiliary vector")
	}
	var vector []byte
	for _, a := range d.core.Auxv() {
		vector = binary.LittleEndian.AppendUint64(vector, a.Type)
		vector = binary.LittleEndian.AppendUint64(vector, a.Value)
	}
	stack := make([]byte, maxAuxGap)
	if _, err := d.ReadAt(stack, random-maxAuxGap); err != nil {
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
func (d *Dump) pointersBefore(address uint64, isLast func(w uint64, n int) bool) (pointers []uint64, last uint64, err error) {
	for n := 0; n < maxPointers; n++ {
		address -= 8
		w, err := d.word(address)
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

func (d *Dump) strings(pointers []uint64) ([]string, error) {
	all := make([]string, 0, len(pointers))
	for _, p := range pointers {
		s, err := d.cString(p)
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	return all, nil
}

// cString reads a zero-terminated string of up to maxString bytes.
func (d *Dump) cString(address uint64) (string, error) {
	const step = 256
	var text []byte
	for len(text) < maxString {
		b := make([]byte, step-address%step) // never across a page that may be missing
		if _, err := d.ReadAt(b, address); err != nil {
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
