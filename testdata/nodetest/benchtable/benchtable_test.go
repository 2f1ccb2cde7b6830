package benchtable

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTablesAreKept(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(Dir, dir)
	table := New("Cost", "By *construction*.", "of", "result")
	table.Print(t)
	if kept, err := os.ReadDir(dir); err != nil || len(kept) > 0 {
		t.Fatalf("an empty table is kept: %v, %v", kept, err)
	}
	table.Row("a|b", "< 3")
	table.Print(t)
	got, err := os.ReadFile(filepath.Join(dir, "Cost.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := "## Cost\n\nBy *construction*.\n\n| of | result |\n|---|---|\n| a\\|b | &lt; 3 |\n"
	if string(got) != want {
		t.Errorf("kept\n%s\nwant\n%s", got, want)
	}
}
