package benchtable

import (
	"os"
	"path/filepath"
	"regexp"
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
	got = regexp.MustCompile(`Measured on \d{4}-\d\d-\d\d: .+, \d+ CPUs, Linux [\d.]+, \w+\.`).ReplaceAll(got, []byte("When and where."))
	want := "## Cost\n\nBy *construction*.\n\nWhen and where.\n\n| of | result |\n|---|---|\n| a\\|b | &lt; 3 |\n"
	if string(got) != want {
		t.Errorf("kept\n%s\nwant\n%s", got, want)
	}
}
