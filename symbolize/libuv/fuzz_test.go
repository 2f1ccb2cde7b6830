package libuv

import (
	"bytes"
	enc "encoding/binary"
	"os"
	"testing"
)

// FuzzFile searches damaged files: whatever they hold, the functions found are code of the
// file.
func FuzzFile(f *testing.F) {
	f.Add(uint32(0), uint32(0x7f), uint32(64))
	f.Add(uint32(64), uint32(1<<31), uint32(3))
	f.Add(uint32(4096), uint32(0xffffffff), uint32(1))
	path := ""
	f.Fuzz(func(t *testing.T, seed, word, step uint32) {
		if path == "" {
			path = addon(t)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// From seed on, replace a word in each step of 128 bytes or more.
		for at := uint64(seed) % uint64(len(text)); at+4 <= uint64(len(text)); at += 128 + uint64(step)%4096 {
			enc.LittleEndian.PutUint32(text[at:], word)
			word = word*1664525 + 1013904223
		}
		var im *Image
		im, err = Open(bytes.NewReader(text), func(at uint64) (uint64, bool) {
			var bits [8]byte
			ok := im.read(bits[:], at)
			return enc.LittleEndian.Uint64(bits[:]), ok
		})
		if err != nil {
			return
		}
		for i := 0; i+rowSize <= len(im.rows); i += rowSize {
			address := relative(im.rows[i:], im.base)
			im.trace(address)
			im.Submitter(address+1, address)
			for name, found := range im.Functions(func(string) (uint64, bool) { return address, true }) {
				if uint64(len(found.Code)) > maxFunction {
					t.Errorf("%s has %d bytes, want at most %d", name, len(found.Code), maxFunction)
				}
			}
		}
	})
}
