package loader

import (
	"errors"

	"github.com/cilium/ebpf"
)

// RemoveKeys deletes the keys of a map for which gone returns true.
func RemoveKeys[K any](m *ebpf.Map, gone func(K) bool) error {
	var keys []K
	var key K
	value := make([]byte, m.ValueSize())
	for all := m.Iterate(); all.Next(&key, &value); {
		if gone(key) {
			keys = append(keys, key)
		}
	}
	var errs []error
	for _, key := range keys {
		if err := m.Delete(&key); !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
