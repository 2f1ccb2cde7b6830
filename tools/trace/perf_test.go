package trace

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"ustack/symbolize/process"
	"ustack/symbolize/reader"
)

// TestMain turns the test binary into a helper when it is started as one.
func TestMain(m *testing.M) {
	reader.Serve()
	os.Exit(m.Run())
}

// TestSkippedLinesOfPerfMapAreReported reads a perf map of our own process: names
// come from the valid lines, and the number of skipped lines is reported once.
func TestSkippedLinesOfPerfMapAreReported(t *testing.T) {
	p, err := process.Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	path := fmt.Sprintf("/tmp/perf-%d.map", os.Getpid())
	text := "7f0000001000 40 first\nno address\n7f0000002000 80 second one\n7f0000003000\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(path) })
	var files reader.Reader
	t.Cleanup(func() { files.Close() })
	var names perfNames
	t.Cleanup(func() { names.close() })
	f, ok, err := names.lookup(&files, p, 0x7f0000002010)
	if !ok || f.Name != "second one" || f.Offset != 0x10 {
		t.Errorf("frame = %+v, %v, want second one + 16", f, ok)
	}
	if err == nil || !strings.Contains(err.Error(), "skipped 2 of its lines") {
		t.Errorf("error = %v, want the 2 lines that were skipped", err)
	}
	if f, ok, err := names.lookup(&files, p, 0x7f0000001000); !ok || f.Name != "first" || err != nil {
		t.Errorf("frame = %+v, %v, %v, want first", f, ok, err)
	}
}
