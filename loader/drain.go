package loader

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// Drain takes out of a hash map the sums to which programs add (bpf/turn.h), while they run, and
// passes them to take: what a program adds is in exactly one of them. turnOf returns a key's turn,
// which is 0 in the keys that are passed. Needs Linux 5.14.
func Drain[K, V any](sums *ebpf.Map, turn *ebpf.Variable, turnOf func(*K) *uint16, take func(K, *V)) error {
	var now uint32
	if err := turn.Get(&now); err != nil {
		return fmt.Errorf("read the turn of the kernel's sums: %w", err)
	}
	now++ // what a failed call has left is of a former turn, too
	if err := turn.Set(now); err != nil {
		return fmt.Errorf("begin another turn of the kernel's sums: %w", err)
	}
	if err := awaitPrograms(); err != nil {
		return fmt.Errorf("wait for what adds to the kernel's sums: %w", err)
	}
	var keys []K
	var key K
	var value V
	entries := sums.Iterate()
	for entries.Next(&key, &value) {
		if *turnOf(&key) != uint16(now) {
			keys = append(keys, key)
		}
	}
	if err := entries.Err(); err != nil {
		return fmt.Errorf("read the kernel's sums: %w", err)
	}
	for _, key := range keys {
		if err := sums.LookupAndDelete(&key, &value); err != nil {
			return fmt.Errorf("take out the kernel's sums: %w", err)
		}
		*turnOf(&key) = 0
		take(key, &value)
	}
	return nil
}

// awaitPrograms waits until the programs that are running have ended. An update of a map of maps
// waits for that (maybe_wait_bpf_programs, kernel/bpf/syscall.c, Linux 5.0).
func awaitPrograms() (err error) {
	inner := &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}
	outer, err := NewMap(&ebpf.MapSpec{Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1, InnerMap: inner})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, outer.Close()) }()
	m, err := NewMap(inner)
	if err != nil {
		return err
	}
	return errors.Join(outer.Put(uint32(0), m), m.Close())
}
