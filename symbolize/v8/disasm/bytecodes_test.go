package disasm

import (
	"bytes"
	"strings"
	"testing"

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
			got := BytecodeSizes(nodetest.OpenELF(t, stripped))
			want := BytecodeSizes(nodetest.OpenELF(t, nodetest.Node(t, version)))
			if len(got) == 0 || !bytes.Equal(got, want) {
				t.Errorf("sizes = %v, want %v", got, want)
			}
		})
	}
}
