package nodetest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// NodeOfV8 returns the path of the official binary of version, made to say that its
// V8 is of another major and minor version, which have as many digits as its own:
// what V8 says of itself is replaced, in its snapshot too.
func NodeOfV8(t testing.TB, version string, major, minor int) string {
	t.Helper()
	node := Node(t, version)
	dir, err := cached(fmt.Sprintf("node-%s-v8-%d.%d", version, major, minor), func(temp string) error {
		out, err := exec.CommandContext(t.Context(), node, "-p", "process.versions.v8").Output()
		if err != nil {
			return err
		}
		return patchVersion(node, filepath.Join(temp, "node"), strings.TrimSpace(string(out)), major, minor)
	})
	if err != nil {
		t.Fatalf("patch node %s: %v", version, err)
	}
	return filepath.Join(dir, "node")
}

// patchVersion writes to a file what is in another, with V8's version changed.
func patchVersion(from, to, version string, major, minor int) error {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) != 3 {
		return fmt.Errorf("V8 says that it is %q", version)
	}
	other := fmt.Sprintf("%d.%d.%s", major, minor, parts[2])
	if len(other) != len(version) {
		return fmt.Errorf("V8 %s is longer or shorter than %s", other, version)
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	b = bytes.ReplaceAll(b, []byte(version), []byte(other))
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return err
	}
	for name, n := range map[string]int{"6major_E": major, "6minor_E": minor} {
		at, err := offsetOf(f, "_ZN2v88internal7Version"+name)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint32(b[at:], uint32(n))
	}
	return os.WriteFile(to, b, 0o755)
}

// offsetOf returns where a variable is in a file.
func offsetOf(f *elf.File, name string) (uint64, error) {
	symbols, err := f.Symbols()
	if err != nil {
		return 0, err
	}
	for _, s := range symbols {
		if s.Name != name {
			continue
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_LOAD && s.Value >= p.Vaddr && s.Value < p.Vaddr+p.Filesz {
				return s.Value - p.Vaddr + p.Off, nil
			}
		}
	}
	return 0, fmt.Errorf("no variable %s", name)
}
