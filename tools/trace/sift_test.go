package trace

import (
	"errors"
	"os/exec"
	"testing"

	"ustack/symbolize/process"
	"ustack/symbolize/v8"
	"ustack/testdata/nodetest"
)

// TestFilesWithoutV8AreNotRead: nothing is learned of them but that.
func TestFilesWithoutV8AreNotRead(t *testing.T) {
	node := nodetest.Start(t, nodetest.Node(t, "22.23.3"), nodetest.Options{Script: "nested.js", Args: []string{"sort"}})
	other := exec.Command("cat")
	stdin, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	table := NewTable(Maps{})
	for range 2 { // the second time, its files are recognized
		if err := table.sift(other.Process.Pid); !errors.Is(err, v8.ErrNotV8) {
			t.Errorf("err = %v, want %v", err, v8.ErrNotV8)
		}
	}
	if len(table.binaries) > 0 || len(table.sifted.files) == 0 {
		t.Errorf("files read = %d, recognized = %d, want none read", len(table.binaries), len(table.sifted.files))
	}
	if err := table.sift(node.PID); err != nil {
		t.Errorf("of Node.js: %v", err)
	}
	if len(table.binaries) != 1 {
		t.Errorf("files read = %d, want the one that holds V8", len(table.binaries))
	}
	for _, b := range table.binaries {
		if b.v8 == nil || b.rules == nil {
			t.Errorf("%s was not read as a whole", b.path)
		}
	}
	stdin.Close()
	_ = other.Wait()
	if err := table.sift(other.Process.Pid); !errors.Is(err, process.ErrGone) {
		t.Errorf("of a process that has ended: %v, want %v", err, process.ErrGone)
	}
	if err := table.Close(); err != nil || len(table.sifted.files) > 0 {
		t.Errorf("close: %v with %d files open", err, len(table.sifted.files))
	}
}

// A closer counts how often it is closed.
type closer struct{ closed *int }

func (c closer) ReadAt([]byte, int64) (int, error) { return 0, errors.New("it is not to be read") }
func (c closer) Close() error                      { *c.closed++; return nil }

func TestFilesWithoutV8AreBounded(t *testing.T) {
	var s sifted
	closed := 0
	const files = maxSifted + 17
	for i := range uint64(files) {
		s.keep(FileID{1, i}, &binary{file: closer{&closed}})
	}
	if len(s.files) != maxSifted || len(s.order) != maxSifted || closed != files-maxSifted {
		t.Errorf("open = %d, closed = %d, want %d and %d", len(s.files), closed, maxSifted, files-maxSifted)
	}
	if s.files[FileID{1, files - 1}] == nil || s.files[FileID{1, 0}] != nil {
		t.Error("it is not the oldest that were closed")
	}
	s.close()
	if closed != files {
		t.Errorf("closed = %d at the end, want %d", closed, files)
	}
}
