package loader

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestAddressBitsHoldAllAddresses(t *testing.T) {
	bits := addressBits()
	page, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(page)
	highest := uintptr(unsafe.Pointer(&page[0])) // the kernel maps from the top down
	if highest>>bits != 0 || highest>>(bits-16) == 0 {
		t.Errorf("addresses have %d bits, and memory is at %#x", bits, highest)
	}
	if !isMappable(highest) {
		t.Errorf("memory at %#x is not mappable", highest)
	}
	if kernels := uintptr(1) << 63; isMappable(kernels) {
		t.Errorf("memory at %#x is mappable", kernels)
	}
}
