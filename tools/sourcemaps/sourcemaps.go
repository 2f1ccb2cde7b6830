// Package sourcemaps finds the source maps of scripts: in the script itself, in a file
// that the script names, or in a directory that the user names. Every map is found and
// read once. What a target names is opened only below the target's own root directory.
package sourcemaps

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"ustack/symbolize/reader"
	"ustack/symbolize/sourcemap"
)

// Options say where source maps are looked for. The zero value is useful.
type Options struct {
	Off    bool   // nowhere
	Folder string // here first, by the name of the map or the script's with ".map"; nowhere if empty

	Content bool // maps keep the texts of sources that they have
}

// A Script is a script that may have a source map.
type Script struct {
	Name string   // its path or URL
	URL  string   // of its map, as it says itself; empty if it says nothing
	Root *os.File // the directory that its paths are below; nil in a core, which is not trusted to name files
}

// Bounds on all maps. One has at most sourcemap.MaxBytes.
const (
	maxMaps  = 1 << 12
	maxBytes = 512 << 20 // in memory
	maxRead  = 1 << 30   // bytes that are read, for each script again: half a second for each 64 MB
)

// A Finder finds source maps. It is not safe for concurrent use.
type Finder struct {
	o      Options
	files  *reader.Reader
	folder *os.File // nil if there is none, or before the first search
	seed   maphash.Seed
	maps   map[key]*sourcemap.Map
	bytes  int // that maps take
	read   int // bytes that were read

	warned     int // errors that were for the user
	unreported int
	notRead    bool // an ErrNotRead was
}

// A key identifies a map by its content and where its sources are relative to.
type key struct {
	hash uint64
	size int
	base string
}

// New returns a Finder that reads files by a reader. Close closes the Finder.
func New(o Options, files *reader.Reader) *Finder {
	return &Finder{o: o, files: files, seed: maphash.MakeSeed(), maps: make(map[key]*sourcemap.Map)}
}

// Close closes the directory of Options.
func (f *Finder) Close() error {
	if f.folder == nil {
		return nil
	}
	return f.folder.Close()
}

// ErrNotRead means that the map is a file, and that the script's process is in a core.
var ErrNotRead = errors.New("the files of a core are not read (--maps DIR reads maps from a directory)")

// MaxWarnings bounds the errors about maps that are reported: a program may use thousands
// of packages that were published without the maps which their scripts name.
const MaxWarnings = 16

// Reports reports whether an error that Find returned is to be shown to the user. Those
// after the first MaxWarnings are not; of those that are ErrNotRead, one is enough.
func (f *Finder) Reports(err error) bool {
	switch {
	case errors.Is(err, ErrNotRead) && f.notRead:
		return false
	case f.warned == MaxWarnings:
		f.unreported++
		return false
	}
	f.notRead = f.notRead || errors.Is(err, ErrNotRead)
	f.warned++
	return true
}

// Unreported returns how many errors were too many to be shown.
func (f *Finder) Unreported() int { return f.unreported }

// Find returns the script's map, nil if it has none. An error says whose map it is about.
func (f *Finder) Find(s Script) (*sourcemap.Map, error) {
	if f.o.Off || s.Name == "" || strings.HasPrefix(s.Name, "node:") {
		return nil, nil
	}
	m, err := f.find(s)
	if err != nil {
		return nil, fmt.Errorf("source map of %s: %w", s.Name, err)
	}
	return m, nil
}

func (f *Finder) find(s Script) (*sourcemap.Map, error) {
	if f.o.Folder != "" {
		if m, err := f.inFolder(s); m != nil || err != nil {
			return m, err
		}
	}
	switch {
	case s.URL == "":
		return nil, nil
	case sourcemap.IsInline(s.URL):
		if err := f.take(len(s.URL)); err != nil {
			return nil, err
		}
		data, err := sourcemap.Inline(s.URL)
		if err != nil {
			return nil, err
		}
		return f.parse(data, s.Name)
	}
	file, err := sourcemap.File(s.Name, s.URL)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cut(s.URL), err)
	}
	if s.Root == nil {
		return nil, fmt.Errorf("%s: %w", file, ErrNotRead)
	}
	data, err := f.load(s.Root, file)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(s.Name, fileScheme) {
		file = fileScheme + file // sources are named as the script is
	}
	return f.parse(data, file)
}

const fileScheme = "file://"

// cut bounds a URL for an error.
func cut(url string) string {
	const limit = 200
	if len(url) > limit {
		return url[:limit] + "…"
	}
	return url
}

// inFolder returns the script's map from the directory of Options, nil if none is there.
func (f *Finder) inFolder(s Script) (*sourcemap.Map, error) {
	if f.folder == nil {
		folder, err := os.OpenFile(f.o.Folder, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return nil, err
		}
		f.folder = folder
	}
	for _, name := range candidates(s) {
		data, err := f.load(f.folder, name)
		switch {
		case errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENAMETOOLONG):
			continue
		case err != nil:
			return nil, fmt.Errorf("in %s: %w", f.o.Folder, err)
		}
		return f.parse(data, s.Name)
	}
	return nil, nil
}

// candidates returns the paths of a script's map in a directory of maps: below the
// script's own directories, and without them.
func candidates(s Script) []string {
	var names []string
	if file, err := sourcemap.File(s.Name, s.URL); err == nil && s.URL != "" {
		names = append(names, file, path.Base(file))
	}
	if file, ok := sourcemap.Path(s.Name); ok {
		names = append(names, file+mapSuffix, path.Base(file)+mapSuffix)
	}
	return names
}

const mapSuffix = ".map"

// take counts bytes that are to be read.
func (f *Finder) take(size int) error {
	if f.read+size > maxRead {
		return fmt.Errorf("the source maps have more than %d MB together: the rest are not read", maxRead>>20)
	}
	f.read += size
	return nil
}

// load reads a file below a directory.
func (f *Finder) load(root *os.File, name string) ([]byte, error) {
	data, err := f.readAll(root, name)
	if err != nil && !strings.Contains(err.Error(), name) {
		err = fmt.Errorf("read %s: %w", name, err)
	}
	return data, err
}

func (f *Finder) readAll(root *os.File, name string) ([]byte, error) {
	file, err := f.files.Below(root, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return f.readFile(file)
}

func (f *Finder) readFile(file *reader.File) ([]byte, error) {
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	if size > sourcemap.MaxBytes {
		return nil, fmt.Errorf("it has %d bytes (at most %d are read)", size, sourcemap.MaxBytes)
	}
	if err := f.take(int(size)); err != nil {
		return nil, err
	}
	data := make([]byte, size)
	_, err = io.ReadFull(io.NewSectionReader(file, 0, size), data)
	return data, err
}

// parse reads a map whose sources are relative to base, unless that was done before.
func (f *Finder) parse(data []byte, base string) (*sourcemap.Map, error) {
	k := key{hash: maphash.Bytes(f.seed, data), size: len(data), base: path.Dir(base)}
	if m, ok := f.maps[k]; ok {
		return m, nil
	}
	if len(f.maps) >= maxMaps {
		return nil, fmt.Errorf("%d other maps are in use, which is the limit", maxMaps)
	}
	m, err := sourcemap.Parse(data, base)
	if err != nil {
		return nil, err
	}
	if f.o.Content {
		if err := m.AddContent(data); err != nil || f.bytes+m.Size() > maxBytes {
			m.DropContent() // positions are more important
		}
	}
	if f.bytes+m.Size() > maxBytes {
		return nil, fmt.Errorf("it and those in use take more than %d MB", maxBytes>>20)
	}
	f.bytes += m.Size()
	f.maps[k] = m
	return m, nil
}
