package sourcemap_test

import (
	"bufio"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/symbolize/sourcemap"
	"ustack/testdata/nodetest"
)

// leastAgreement is the part of positions for which the original must be that of npm's
// source-map. Where several segments begin at one position, it takes any.
const leastAgreement = 0.99

// TestOriginalsAreThoseOfSourceMap compares positions of scripts made by tsc, esbuild, swc
// and webpack, names included, with what npm's source-map says.
func TestOriginalsAreThoseOfSourceMap(t *testing.T) {
	folder := nodetest.SourceMaps(t)
	scripts := 0
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		script, ok := strings.CutSuffix(path, ".expected")
		if err != nil || !ok {
			return err
		}
		scripts++
		name, _ := filepath.Rel(folder, script)
		t.Run(name, func(t *testing.T) { agrees(t, script) })
		return nil
	})
	if err != nil || scripts < 12 {
		t.Errorf("compared %d scripts, %v, want 12 or more", scripts, err)
	}
}

func agrees(t *testing.T, script string) {
	data, err := os.ReadFile(script + ".map")
	if err != nil {
		t.Fatal(err)
	}
	m, err := sourcemap.Parse(data, "")
	if err != nil {
		t.Fatal(err)
	}
	expected, err := os.Open(script + ".expected")
	if err != nil {
		t.Fatal(err)
	}
	defer expected.Close()
	equal, all, mapped := 0, 0, 0
	for lines := bufio.NewScanner(expected); lines.Scan(); all++ {
		var line, column int
		var source, name *string
		var sourceLine, sourceColumn *int
		if err := json.Unmarshal(lines.Bytes(), &[]any{&line, &column, &source, &sourceLine, &sourceColumn, &name}); err != nil {
			t.Fatal(err)
		}
		got, ok := m.Original(line, column+1)
		if source == nil {
			if !ok {
				equal++
			}
			continue
		}
		mapped++
		file, err := url.PathUnescape(*source) // source-map escapes it
		if err != nil {
			t.Fatal(err)
		}
		want := sourcemap.Position{File: file, Line: *sourceLine, Column: *sourceColumn + 1}
		if name != nil {
			want.Name = *name
		}
		if got == want {
			equal++
		} else if all-equal < 3 {
			t.Logf("%d:%d comes from %v, want %v", line, column, got, want)
		}
	}
	t.Logf("%d of %d positions are equal, %d have a source", equal, all, mapped)
	if all < 500 || float64(equal) < leastAgreement*float64(all) || mapped < all/8 {
		t.Errorf("%d of %d positions are equal, %d have a source", equal, all, mapped)
	}
}
