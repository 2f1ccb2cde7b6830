package trace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"ustack/symbolize"
	"ustack/symbolize/sourcemap"
	"ustack/symbolize/v8/code"
	"ustack/tools/sourcemaps"
)

// textTable returns a table of an ended process that keeps texts, with its scripts.
func textTable(t *testing.T, folder string, scripts map[scriptKey]string) *Table {
	t.Helper()
	table := endedTable(t, folder)
	table.texts = newTexts(true)
	for key, text := range scripts {
		source, err := code.NewSource(utf16.Encode([]rune(text)))
		if err != nil {
			t.Fatal(err)
		}
		table.keepScript(key, script{name: "/x.js", source: &source})
		table.texts.scripts[key] = scriptText{text: text}
	}
	return table
}

const (
	oneText = "let a;\nfunction f() {\n}\n"
	twoText = "function f() {\n  //\n}\n"
)

var (
	oneScript   = scriptKey{1<<32 | 7, 3}
	twoScript   = scriptKey{1<<32 | 7, 4}
	otherThread = scriptKey{1<<32 | 8, 3}
)

func TestTextsOfScripts(t *testing.T) {
	in := func(line, column int) symbolize.Frame {
		return symbolize.Frame{Kind: symbolize.JS, Name: "f", File: "/x.js", Line: line, Column: column}
	}
	one := Source{Text: oneText, Line: 1, From: "the process's memory"}
	ended := one
	ended.LastLine = 3
	for name, test := range map[string]struct {
		scripts map[scriptKey]string
		ends    map[functionKey]int
		frame   symbolize.Frame
		want    Source
		err     error
	}{
		"one script":            {map[scriptKey]string{oneScript: oneText}, nil, in(2, 11), one, nil},
		"its function is known": {map[scriptKey]string{oneScript: oneText}, map[functionKey]int{{oneScript, 17}: len(oneText) - 1}, in(2, 11), ended, nil},
		"in two threads":        {map[scriptKey]string{oneScript: oneText, otherThread: oneText}, nil, in(2, 11), one, nil},
		"two texts":             {map[scriptKey]string{oneScript: oneText, twoScript: twoText}, nil, in(2, 11), Source{}, errAmbiguous},
		"two texts, one of which has the function": {
			map[scriptKey]string{oneScript: oneText, twoScript: twoText},
			map[functionKey]int{{oneScript, 17}: len(oneText) - 1, {twoScript, 10}: 9},
			in(2, 11), ended, nil,
		},
		"no script": {nil, nil, in(2, 11), Source{}, errNoText},
	} {
		table := textTable(t, t.TempDir(), test.scripts)
		for key, end := range test.ends {
			table.texts.ends[key] = end
		}
		if got, err := table.Source(os.Getpid(), test.frame); got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: source = %+v, error %v, want %+v, %v", name, got, err, test.want, test.err)
		}
		if got, err := table.Source(os.Getpid()+1, test.frame); !errors.Is(err, errNoText) {
			t.Errorf("%s: source of another process = %+v, error %v, want %v", name, got, err, errNoText)
		}
	}
}

// TestTextsOfOriginals has a script whose map has the text of its source, or only its name.
func TestTextsOfOriginals(t *testing.T) {
	const text = "// a\n\nfunction total() {\n  //\n}\n"
	const mappings = `,"mappings":"AAEA;AAEA;AAEA"}` // lines 1, 2, 3 are 3, 5, 7
	folder := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(folder, "x.ts"), []byte(text), 0o600), os.Chmod(folder, 0o700)); err != nil {
		t.Fatal(err)
	}
	f := symbolize.Frame{
		Kind: symbolize.JS, Name: "total", File: "/x.ts", Line: 3, Column: 1,
		GeneratedFile: "/x.js", GeneratedLine: 1, GeneratedColumn: 1,
	}
	for name, test := range map[string]struct {
		content string
		user    int
		want    Source
		err     error
	}{
		"in the map":        {`,"sourcesContent":["of the map"]`, noUser, Source{"of the map", 1, "the source map", 5}, nil},
		"in a file":         {"", os.Getuid(), Source{text, 1, "the file that the source map names", 5}, nil},
		"in another's file": {"", 4242, Source{}, sourcemaps.ErrNotReadable},
		"of nobody known":   {"", noUser, Source{}, sourcemaps.ErrNotReadable},
	} {
		table := textTable(t, folder, map[scriptKey]string{oneScript: twoText})
		table.owners[1].user = test.user
		table.texts.ends[functionKey{oneScript, 0}] = strings.Index(twoText, "//")
		data := []byte(`{"version":3,"sources":["x.ts"],"names":[]` + test.content + mappings)
		m, err := sourcemap.Parse(data, "/x.js.map")
		if err != nil {
			t.Fatal(err)
		}
		if err := m.AddContent(data); err != nil {
			t.Fatal(err)
		}
		table.originals.maps[oneScript] = m
		if got, err := table.Source(os.Getpid(), f); got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: source = %+v, error %v, want %+v, %v", name, got, err, test.want, test.err)
		}
	}
}
