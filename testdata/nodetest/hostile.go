package nodetest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// PlainAddon returns the path of an add-on that every node loads, and that does nothing.
func PlainAddon(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plain.node")
	compilePlain(t, path)
	return path
}

func compilePlain(t testing.TB, path string) {
	t.Helper()
	const register = "void *napi_register_module_v1(void *env, void *exports) { return exports; }\n"
	cmd := exec.Command("gcc", "-shared", "-fPIC", "-O2", "-o", path, "-x", "c", "-")
	cmd.Stdin = strings.NewReader(register)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compile an add-on: %v\n%s", err, out)
	}
}

// HostileAddon returns the path of an add-on that node loads and whose
// .gnu_debugdata is announced as compressed, and is not. The path has bytes in
// it that a terminal would obey.
func HostileAddon(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	path, blob := filepath.Join(dir, "evil\x1b]0;title\a.node"), filepath.Join(dir, "blob")
	compilePlain(t, path)
	if err := os.WriteFile(blob, make([]byte, 1<<14), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("objcopy", "--add-section", ".gnu_debugdata="+blob, path).CombinedOutput(); err != nil {
		t.Fatalf("objcopy: %v\n%s", err, out)
	}
	setCompressed(t, path, ".gnu_debugdata")
	return path
}

// setCompressed sets SHF_COMPRESSED of a section in the file at path.
func setCompressed(t testing.TB, path, section string) {
	t.Helper()
	image, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	const sectionHeaders, headerSize, flags = 40, 64, 8 // offsets in Elf64_Ehdr and Elf64_Shdr
	at := binary.LittleEndian.Uint64(image[sectionHeaders:])
	for i, s := range file.Sections {
		if s.Name == section {
			binary.LittleEndian.PutUint64(image[at+uint64(i*headerSize+flags):], uint64(s.Flags|elf.SHF_COMPRESSED))
		}
	}
	if err := os.WriteFile(path, image, 0o700); err != nil {
		t.Fatal(err)
	}
}
