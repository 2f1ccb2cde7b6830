package kernels

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"ustack/testdata/nodetest"
)

// suites are the releases of Debian that have the kernels.
var suites = map[string]string{"5.10": "bullseye", "6.1": "bookworm", "6.12": "trixie", "newest": "sid"}

// usual are the kernels that are tested unless others are asked for.
const usual = "5.10 6.1 6.12 newest"

// image returns the path of a kernel, given by its name or its path.
func image(t testing.TB, name string) string {
	t.Helper()
	if filepath.IsAbs(name) {
		return name
	}
	suite, ok := suites[name]
	if !ok {
		t.Fatalf("no kernel %q: there are %s, and paths of vmlinuz", name, usual)
	}
	return nodetest.Kernel(t, suite)
}

// releaseOf returns the release of Linux whose boot image a file is: its header has that
// (Documentation/arch/x86/boot.rst of Linux).
func releaseOf(path string) (string, error) {
	const (
		magic    = 0x202
		version  = 0x20e // where the text is, less a sector
		sector   = 0x200
		longest  = 256
		noHeader = "%s is no boot image of Linux"
	)
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	header := make([]byte, version+2)
	if _, err := io.ReadFull(f, header); err != nil || !bytes.HasPrefix(header[magic:], []byte("HdrS")) {
		return "", fmt.Errorf(noHeader, path)
	}
	text := make([]byte, longest)
	if _, err := f.ReadAt(text, sector+int64(binary.LittleEndian.Uint16(header[version:]))); err != nil {
		return "", fmt.Errorf(noHeader, path)
	}
	release, _, ok := bytes.Cut(text, []byte(" "))
	if !ok {
		return "", fmt.Errorf(noHeader, path)
	}
	return string(release), nil
}

// versionOf returns the first two numbers of a release of Linux.
func versionOf(release string) (version [2]int, err error) {
	if _, err := fmt.Sscanf(release, "%d.%d", &version[0], &version[1]); err != nil {
		return version, fmt.Errorf("%q is no release of Linux", release)
	}
	return version, nil
}
