package profile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func write(t *testing.T, format string, p *Profile, o Options) string {
	t.Helper()
	f, err := Lookup(format)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := f.Write(&b, p, o); err != nil {
		t.Fatalf("write %s: %v", format, err)
	}
	return b.String()
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", file, diff)
	}
}

func TestGolden(t *testing.T) {
	for _, format := range []string{"top", "collapsed", "stackvis", "dtrace", "svg", "html", "speedscope", "cpuprofile", "json", "markdown"} {
		golden(t, "server."+format, write(t, format, fixtures()["server"], Options{}))
	}
	for _, format := range []string{"top", "collapsed", "dtrace", "markdown"} {
		golden(t, "awkward."+format, write(t, format, awkward(), Options{Rows: -1}))
	}
	golden(t, "server.native.top", write(t, "top", fixtures()["server"], Options{Native: true}))
	golden(t, "awkward.native.top", write(t, "top", awkward(), Options{Native: true, Rows: -1}))
	golden(t, "server.pprof", pprofOf([]*Profile{server().WithoutTyped()}).String())
	golden(t, "server.color", write(t, "top", fixtures()["server"], Options{Color: true, MinPercent: 10}))
}

func TestEveryFormatWritesEveryProfile(t *testing.T) {
	for name, p := range fixtures() {
		for _, f := range Formats {
			got := write(t, f.Name, p, Options{})
			if again := write(t, f.Name, p, Options{}); again != got {
				t.Errorf("%s of %s: two runs differ", f.Name, name)
			}
			if f.Name == "pprof" {
				continue
			}
			if !utf8.ValidString(got) {
				t.Errorf("%s of %s is not valid UTF-8", f.Name, name)
			}
			if i := strings.IndexAny(got, "\x00\x07\x1b"); i >= 0 {
				t.Errorf("%s of %s has a control character at %d", f.Name, name, i)
			}
		}
	}
}

func TestOrderOfStacksDoesNotMatter(t *testing.T) {
	for name, p := range fixtures() {
		reversed := *p
		reversed.Stacks = slices.Clone(p.Stacks)
		slices.Reverse(reversed.Stacks)
		for _, f := range Formats {
			if diff := cmp.Diff(write(t, f.Name, p, Options{}), write(t, f.Name, &reversed, Options{})); diff != "" {
				t.Errorf("%s of %s depends on the stacks' order (-straight +reversed):\n%s", f.Name, name, diff)
			}
		}
	}
}

// failing takes room bytes, then is full.
type failing struct{ room int }

var errFull = errors.New("no space left")

func (f *failing) Write(b []byte) (int, error) {
	if len(b) > f.room {
		return 0, errFull
	}
	f.room -= len(b)
	return len(b), nil
}

func TestFullDiskIsAnError(t *testing.T) {
	for _, f := range Formats {
		if err := f.Write(&failing{room: 64}, server(), Options{}); !errors.Is(err, errFull) {
			t.Errorf("%s: err = %v, want %v", f.Name, err, errFull)
		}
	}
}

func TestFormatOfFile(t *testing.T) {
	for file, want := range map[string]string{
		"out.svg": "svg", "OUT.SVG": "svg", "a/b.html": "html", "p.pb.gz": "pprof", "p.pprof": "pprof",
		"x.folded": "collapsed", "x.collapsed": "collapsed", "x.speedscope.json": "speedscope", "x.json": "json",
		"x.cpuprofile": "cpuprofile", "stacks.out": "dtrace", "x.txt": "top", "x.stackvis": "stackvis",
	} {
		got, err := FormatOf(file)
		if err != nil || got.Name != want {
			t.Errorf("FormatOf(%q) = %q, %v, want %q", file, got.Name, err, want)
		}
	}
	for _, file := range []string{"", "profile", "x.gz", "svg"} {
		if got, err := FormatOf(file); err == nil {
			t.Errorf("FormatOf(%q) = %q, want an error", file, got.Name)
		}
	}
}

func TestLookupNamesTheFormatsThereAre(t *testing.T) {
	_, err := Lookup("pdf")
	if err == nil || !strings.Contains(err.Error(), "speedscope") {
		t.Errorf("Lookup(pdf): err = %v, want one that lists the formats", err)
	}
}

func TestPprofIsGzipped(t *testing.T) {
	r, err := gzip.NewReader(strings.NewReader(write(t, "pprof", server(), Options{})))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Error(err)
	}
}

func TestProgramIsPprofsFirstMapping(t *testing.T) {
	p := server()
	if got := pprofOf([]*Profile{p}).Mapping[0].File; got != nodeBinary {
		t.Errorf("first mapping = %s, want %s", got, nodeBinary)
	}
}
