package sourcemaps

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/symbolize/reader"
	"ustack/symbolize/sourcemap"
)

func TestMain(m *testing.M) {
	reader.Serve()
	os.Exit(m.Run())
}

// mapOf returns a map of one segment, of a source.
func mapOf(source string) string {
	return fmt.Sprintf(`{"version":3,"sources":[%q],"names":[],"mappings":"AAAA"}`, source)
}

// place writes files below a folder, and returns a descriptor of it.
func place(t *testing.T, files map[string]string) (folder string, root *os.File) {
	t.Helper()
	folder = t.TempDir()
	for name, content := range files {
		file := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenFile(folder, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return folder, root
}

// finder returns a Finder that is closed when the test ends.
func finder(t *testing.T, o Options) *Finder {
	t.Helper()
	files := new(reader.Reader)
	f := New(o, files)
	t.Cleanup(func() {
		if err := errors.Join(f.Close(), files.Close()); err != nil {
			t.Error(err)
		}
	})
	return f
}

// firstSource returns the source of the script's first position; empty without a map.
func firstSource(m *sourcemap.Map) string {
	if m == nil {
		return ""
	}
	p, _ := m.Original(1, 1)
	return p.File
}

const inline = "data:application/json,%7B%22version%22%3A3%2C%22sources%22%3A%5B%22in.ts%22%5D%2C%22mappings%22%3A%22AAAA%22%7D"

func TestMapsAreFoundWhereScriptsSay(t *testing.T) {
	_, root := place(t, map[string]string{
		"app/dist/x.js.map": mapOf("../src/x.ts"), "maps/y.map": mapOf("y.ts"),
	})
	for _, tt := range []struct{ name, url, want string }{
		{"/app/dist/x.js", "x.js.map", "/app/src/x.ts"},
		{"file:///app/dist/x.js", "x.js.map", "file:///app/src/x.ts"},
		{"/app/dist/x.js", "/maps/y.map", "/maps/y.ts"},
		{"/app/dist/x.js", "../../../../maps/y.map", "/maps/y.ts"},
		{"/app/dist/x.js", "file:///maps/y.map", "/maps/y.ts"},
		{"/app/dist/x.js", inline, "/app/dist/in.ts"},
		{"webpack-internal:///./x.js", inline, "webpack-internal:///in.ts"},
		{"/app/dist/x.js", "", ""},
		{"node:fs", "x.js.map", ""},
		{"", "x.js.map", ""},
	} {
		m, err := finder(t, Options{}).Find(Script{Name: tt.name, URL: tt.url, Root: root})
		if got := firstSource(m); got != tt.want || err != nil {
			t.Errorf("source of %s, whose map is %q: %q, %v, want %q", tt.name, tt.url, got, err, tt.want)
		}
		if m, err := finder(t, Options{Off: true}).Find(Script{Name: tt.name, URL: tt.url, Root: root}); m != nil || err != nil {
			t.Errorf("map of %s: %v, %v, want none if they are not wanted", tt.name, m, err)
		}
	}
}

// TestOnlyFilesOfTheTargetAreRead has scripts name what is not theirs, or no file.
func TestOnlyFilesOfTheTargetAreRead(t *testing.T) {
	outside, _ := place(t, map[string]string{"secret.map": mapOf("secret.ts")})
	folder, root := place(t, map[string]string{"broken.map": "{", "cut.map": `{"version":3,"mappings":"AAAg"}`})
	err := errors.Join(
		os.Symlink(filepath.Join(outside, "secret.map"), filepath.Join(folder, "link.map")),
		os.Symlink("/proc/self/root"+filepath.Join(outside, "secret.map"), filepath.Join(folder, "magic.map")),
		unix.Mkfifo(filepath.Join(folder, "pipe.map"), 0o600),
		os.Mkdir(filepath.Join(folder, "folder.map"), 0o700),
		os.WriteFile(filepath.Join(folder, "huge.map"), nil, 0o600),
		os.Truncate(filepath.Join(folder, "huge.map"), 1<<40),
	)
	if err != nil {
		t.Fatal(err)
	}
	f := finder(t, Options{})
	for url, want := range map[string]string{
		"link.map":                           "no such file",
		"magic.map":                          "no such file",
		"pipe.map":                           "not a regular file",
		"folder.map":                         "not a regular file",
		"gone.map":                           "no such file",
		"huge.map":                           "it has 1099511627776 bytes",
		"broken.map":                         "not a source map",
		"cut.map":                            "not base64 VLQ",
		filepath.Join(outside, "secret.map"): "no such file",
		"https://example.org/x.map":          "only files and data URLs",
		"data:;base64,!":                     "illegal base64",
		"x" + strings.Repeat("y", 1<<20):     "its name is no path",
	} {
		m, err := f.Find(Script{Name: "/x.js", URL: url, Root: root})
		if m != nil || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "source map of /x.js: ") {
			t.Errorf("map %.40s: %v, %v, want an error with %q", url, m, err, want)
		}
	}
	if _, err := f.Find(Script{Name: "/x.js", URL: "x.map"}); !errors.Is(err, ErrNotRead) {
		t.Errorf("map of a script in a core: %v, want that it is not read", err)
	}
	if m, err := f.Find(Script{Name: "/x.js", URL: inline}); firstSource(m) != "/in.ts" || err != nil {
		t.Errorf("map inside a script in a core: %v, %v", m, err)
	}
}

func TestFolderIsSearchedFirst(t *testing.T) {
	outside, _ := place(t, map[string]string{"secret.map": mapOf("secret.ts")})
	folder, _ := place(t, map[string]string{
		"app/a/main.js.map": mapOf("a.ts"), "main.js.map": mapOf("b.ts"), "named.map": mapOf("c.ts"), "bad.js.map": "{",
	})
	if err := os.Symlink(outside, filepath.Join(folder, "out")); err != nil {
		t.Fatal(err)
	}
	_, root := place(t, map[string]string{"app/a/main.js.map": mapOf("theirs.ts"), "app/other.js.map": mapOf("theirs.ts")})
	f := finder(t, Options{Folder: folder})
	for _, tt := range []struct {
		script Script
		want   string
	}{
		{Script{Name: "/app/a/main.js"}, "/app/a/a.ts"}, // it names none
		{Script{Name: "/app/a/main.js", URL: "main.js.map", Root: root}, "/app/a/a.ts"},
		{Script{Name: "/app/b/main.js", URL: "gone.map"}, "/app/b/b.ts"},
		{Script{Name: "file:///app/b/main.js"}, "file:///app/b/b.ts"},
		{Script{Name: "/app/b/x.js", URL: "named.map"}, "/app/b/c.ts"},
		{Script{Name: "/app/other.js", URL: "other.js.map", Root: root}, "/app/theirs.ts"},
		{Script{Name: "/app/x.js", URL: "/out/secret.map"}, ""}, // a link does not lead out
		{Script{Name: "/../" + outside + "/secret"}, ""},
		{Script{Name: "/bad.js"}, ""},
	} {
		m, err := f.Find(tt.script)
		if got := firstSource(m); got != tt.want {
			t.Errorf("source of %s with map %q: %q, %v, want %q", tt.script.Name, tt.script.URL, got, err, tt.want)
		}
	}
	if _, err := finder(t, Options{Folder: filepath.Join(folder, "none")}).Find(Script{Name: "/x.js"}); err == nil {
		t.Error("a directory that is not there is no error")
	}
}

// TestEqualMapsAreReadOnce has processes of the same program share what was read.
func TestEqualMapsAreReadOnce(t *testing.T) {
	f := finder(t, Options{})
	_, one := place(t, map[string]string{"x.map": mapOf("x.ts")})
	_, two := place(t, map[string]string{"x.map": mapOf("x.ts")})
	a, err := f.Find(Script{Name: "/x.js", URL: "x.map", Root: one})
	b, err2 := f.Find(Script{Name: "/x.js", URL: "x.map", Root: two})
	if err := errors.Join(err, err2); a != b || err != nil {
		t.Errorf("maps %p and %p, %v, want the same", a, b, err)
	}
	if f.bytes != a.Size() {
		t.Errorf("%d bytes, want the %d of one map", f.bytes, a.Size())
	}
}

func TestMapsAreBounded(t *testing.T) {
	f := finder(t, Options{})
	for i := range maxMaps + 1 {
		_, err := f.parse([]byte(mapOf(fmt.Sprintf("%d.ts", i))), "/x.js")
		if (err != nil) != (i == maxMaps) {
			t.Fatalf("map %d: %v", i, err)
		}
	}
	f = finder(t, Options{})
	f.bytes = maxBytes - 10
	if _, err := f.parse([]byte(mapOf("x.ts")), "/x.js"); err == nil || !strings.Contains(err.Error(), "more than 512 MB") {
		t.Errorf("a map beyond the bound: %v", err)
	}
	_, root := place(t, map[string]string{"x.map": mapOf("x.ts")})
	f = finder(t, Options{})
	f.read = maxRead - 10
	for _, url := range []string{"x.map", inline} {
		if _, err := f.Find(Script{Name: "/x.js", URL: url, Root: root}); err == nil || !strings.Contains(err.Error(), "more than 1024 MB") {
			t.Errorf("a map %s beyond what is read: %v", url, err)
		}
	}
}

func TestFewErrorsAreReported(t *testing.T) {
	f := finder(t, Options{})
	reported := 0
	for i := range 3 * MaxWarnings {
		err := errors.New("broken")
		if i%3 == 0 {
			err = fmt.Errorf("a file: %w", ErrNotRead)
		}
		if f.Reports(err) {
			reported++
		}
	}
	if want := 2*MaxWarnings + 1 - MaxWarnings; reported != MaxWarnings || f.Unreported() != want {
		t.Errorf("%d errors reported, %d not, want %d and %d", reported, f.Unreported(), MaxWarnings, want)
	}
}
