package loader

import (
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// addressMask is the variable of programs for arm64 with the bits of a return address that
// are not a signature.
const addressMask = "address_mask"

// setAddressMask sets it in programs that have it.
func setAddressMask(spec *ebpf.CollectionSpec) error {
	variable, ok := spec.Variables[addressMask]
	if !ok {
		return nil
	}
	if err := variable.Set(uint64(1)<<addressBits() - 1); err != nil {
		return fmt.Errorf("set %s: %w", addressMask, err)
	}
	return nil
}

// usualBits are the bits of user-mode addresses of most kernels; those that are built for
// other sizes are tried, too (ARM64_VA_BITS).
const usualBits = 48

// addressBits returns how many bits a process's addresses have, as far as memory may be
// mapped.
func addressBits() int {
	for _, bits := range []int{52, usualBits, 47, 42, 39, 36} {
		if isMappable(1 << (bits - 1)) {
			return bits
		}
	}
	return usualBits
}

// isMappable reports whether memory may be mapped at address, or is.
func isMappable(address uintptr) bool {
	size := uintptr(unix.Getpagesize())
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_FIXED_NOREPLACE
	at, _, errno := unix.Syscall6(unix.SYS_MMAP, address, size, unix.PROT_NONE, flags, ^uintptr(0), 0)
	if errno != 0 {
		return errno == unix.EEXIST
	}
	_, _, _ = unix.Syscall(unix.SYS_MUNMAP, at, size, 0) // it has one page
	return at == address
}
