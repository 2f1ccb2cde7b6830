package v8_test

import (
	"bytes"
	"strings"
	"testing"

	"ustack/symbolize/v8"
	"ustack/testdata/nodetest"
)

// TestBytecodeSizesAreFoundWithoutSymbols compares the tables of official binaries with
// and without their symbols. Debian's have V8 in a library.
func TestBytecodeSizesAreFoundWithoutSymbols(t *testing.T) {
	for _, build := range nodetest.Stripped {
		if !strings.HasPrefix(build.Name, "stripped") {
			continue
		}
		t.Run(build.Name, func(t *testing.T) {
			stripped, version := build.Node(t)
			got, err := v8.Inspect(nodetest.OpenELF(t, stripped))
			if err != nil {
				t.Fatal(err)
			}
			want, err := v8.Inspect(nodetest.OpenELF(t, nodetest.Node(t, version)))
			if err != nil {
				t.Fatal(err)
			}
			if len(got.BytecodeSizes) == 0 || !bytes.Equal(got.BytecodeSizes, want.BytecodeSizes) {
				t.Errorf("sizes = %v, want %v", got.BytecodeSizes, want.BytecodeSizes)
			}
		})
	}
}
