package elfsym_test

import (
	"bytes"
	"math"
	"os"
	"testing"

	"ustack/symbolize/elfsym"
	"ustack/testdata/nodetest"
)

// exercise uses everything that depends on the file's contents.
func exercise(image []byte) {
	f, err := elfsym.Open(bytes.NewReader(image))
	if err != nil {
		return
	}
	defer f.Close()
	for _, address := range []uint64{0, 1, 0x1000, 0x1100, uint64(len(image)), 1 << 47, math.MaxUint64} {
		f.Lookup(address)
		f.Address(address)
		f.Offset(address)
		_, _ = f.ReadAt(make([]byte, 100), address)
	}
	for s := range f.Symbols("") {
		f.Symbol(s.Name)
		f.Lookup(s.Address)
		s.Demangled()
	}
}

func TestTruncatedFiles(t *testing.T) {
	image, err := os.ReadFile(library(t))
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(image); n += 37 {
		exercise(image[:n])
	}
}

// TestDamagedBytes sets each byte of the headers, and of the section headers at
// the end, to the values most likely to break a reader.
func TestDamagedBytes(t *testing.T) {
	image, err := os.ReadFile(library(t))
	if err != nil {
		t.Fatal(err)
	}
	const headers, sections = 1024, 2048
	for i := range image {
		if i >= headers && i < len(image)-sections {
			continue
		}
		original := image[i]
		for _, b := range []byte{0, 0x7f, 0xff} {
			image[i] = b
			exercise(image)
		}
		image[i] = original
	}
}

func FuzzOpen(f *testing.F) {
	image, err := os.ReadFile(library(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(image)
	f.Add(image[:100])
	for _, hostile := range nodetest.HostileELFs(f) {
		f.Add(hostile)
	}
	f.Fuzz(func(_ *testing.T, image []byte) { exercise(image) })
}
