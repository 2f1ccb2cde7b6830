package space

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ustack/symbolize/contain"
	"ustack/symbolize/elfsym"
	"ustack/symbolize/process"
	"ustack/symbolize/reader"
	"ustack/symbolize/unwind"
)

// A Module is a file whose code the process ran.
type Module struct {
	Path string       // as the process named it
	ELF  *elfsym.File // nil if it could not be opened
	Bias uint64       // of addresses in the process relative to those in the file
	Err  error        // why no file is open

	mappings []Mapping
	data     bool   // no ELF file, and not the program's
	buildID  string // as found in memory; empty if it is not there
	lacksID  bool   // the memory in which a build ID would be is not known
	found    string // the file that is open
	file     io.ReaderAt

	unwind    *unwind.Table // nil until needed
	unwindErr error         // why there are no tables
}

func (m *Module) close() error { return m.ELF.Close() }

// unwindTable returns the file's unwind tables.
func (m *Module) unwindTable() (*unwind.Table, error) {
	if m.file == nil {
		return nil, m.Err
	}
	if m.unwind == nil && m.unwindErr == nil {
		m.unwind, m.unwindErr = unwind.New(m.file)
	}
	return m.unwind, m.unwindErr
}

// deleted ends the path of a file that was removed or replaced while it was mapped.
const deleted = " (deleted)"

// modulesOf returns the files that have code, with all their mappings.
func modulesOf(mappings []Mapping, runs func(Mapping) bool) []*Module {
	byPath := make(map[string]*Module)
	var all []*Module
	for _, m := range mappings {
		if byPath[m.Path] == nil && runs(m) {
			byPath[m.Path] = &Module{Path: m.Path}
			all = append(all, byPath[m.Path])
		}
	}
	for _, m := range mappings {
		if module := byPath[m.Path]; module != nil {
			module.mappings = append(module.mappings, m)
		}
	}
	return all
}

// order is greater for the file that holds the program's entry point.
func (m *Module) order(entry uint64) int {
	for _, mapping := range m.mappings {
		if entry >= mapping.Start && entry < mapping.End {
			return 1
		}
	}
	return 0
}

// IsData reports whether the file is one of data that is mapped like code, or of which the core
// does not say that it is not: it is no ELF file, and not the program's.
func (m *Module) IsData() bool { return m.data }

// IsUnverified reports whether the open file was found by its path alone: the core does not have
// the page with the build ID, so it may be another build than the process ran.
func (m *Module) IsUnverified() bool { return m.ELF != nil && m.lacksID }

// use reads r as the module's file.
func (m *Module) use(r io.ReaderAt) (err error) {
	defer contain.Panic(&err, "read %s", m.Path)
	file, err := elfsym.Open(r)
	if err != nil {
		return err
	}
	m.file, m.ELF, m.Bias = r, file, Bias(file, m.mappings)
	return nil
}

// Bias returns what must be added to an address of a file to get the address in a process
// that has these mappings of it; 0 if that is not known. The largest decides: V8 may map the
// part that holds its builtins a second time.
func Bias(file *elfsym.File, mappings []Mapping) uint64 {
	if file.Type() == elf.ET_EXEC || len(mappings) == 0 {
		return 0
	}
	largest := slices.MaxFunc(mappings, func(a, b Mapping) int { return cmp.Compare(a.End-a.Start, b.End-b.Start) })
	middle := (largest.End - largest.Start) / 2 // its ends may hold another segment's bytes
	address, ok := file.Address(largest.Offset + middle)
	if !ok {
		return 0
	}
	return largest.Start + middle - address
}

// Limits on what is read of an ELF header in the core.
const (
	maxPrograms = 64      // program headers; node has 13
	maxNote     = 1 << 10 // bytes of a note section
	buildIDType = 3       // NT_GNU_BUILD_ID
)

// buildID returns the build ID of a module from its first page in the core; known is false if
// that page is not there.
func (s *Space) buildID(m *Module) (id string, known bool) {
	at := slices.IndexFunc(m.mappings, func(m Mapping) bool { return m.Offset == 0 })
	if at < 0 {
		return "", false
	}
	start := m.mappings[at].Start
	var header elf.Header64
	if s.decode(start, &header) != nil {
		return "", false
	}
	return s.notedBuildID(start, header), true
}

// notedBuildID returns the build ID of the ELF file with that header at start; empty if it has
// none.
func (s *Space) notedBuildID(start uint64, header elf.Header64) string {
	if string(header.Ident[:4]) != elf.ELFMAG || header.Phnum > maxPrograms {
		return ""
	}
	programs := make([]elf.Prog64, header.Phnum)
	if s.decode(start+header.Phoff, programs) != nil {
		return ""
	}
	for _, p := range programs {
		if elf.ProgType(p.Type) != elf.PT_NOTE {
			continue
		}
		notes := make([]byte, min(p.Filesz, maxNote))
		if _, err := s.source.ReadAt(notes, start+p.Off); err != nil {
			continue
		}
		if id := noteBuildID(notes); id != "" {
			return id
		}
	}
	return ""
}

func (s *Space) decode(address uint64, to any) error {
	b := make([]byte, binary.Size(to))
	if _, err := s.source.ReadAt(b, address); err != nil {
		return err
	}
	_, err := binary.Decode(b, binary.LittleEndian, to)
	return err
}

// noteBuildID returns the build ID among notes, in hexadecimal.
func noteBuildID(notes []byte) string {
	const header = 12
	align := func(n uint64) uint64 { return (n + 3) &^ 3 }
	for len(notes) >= header {
		name := uint64(binary.LittleEndian.Uint32(notes))
		size := uint64(binary.LittleEndian.Uint32(notes[4:]))
		kind := binary.LittleEndian.Uint32(notes[8:])
		end := header + align(name) + align(size)
		if end > uint64(len(notes)) {
			return ""
		}
		if kind == buildIDType && string(notes[header:header+name]) == "GNU\x00" {
			return hex.EncodeToString(notes[header+align(name):][:size])
		}
		notes = notes[end:]
	}
	return ""
}

// A Finder opens the files that a process had mapped. They may be gone, or be on
// another machine.
type Finder struct {
	Exe     string           // the program; if empty, found by its path, or in Folders
	Root    *os.File         // the folder below which the process's paths are, which no link leads out of; nil: "/"
	Folders []string         // where to search for programs and libraries, by build ID, then by name
	Process *process.Process // the live process; nil for a core
	Files   *reader.Reader

	ids map[string][]string // files in the folders by build ID; nil until they are searched
}

var errNotFound = errors.New("not found (name a folder with it by --symbols or --sysroot, or the program by --exe)")

// open opens the file of m, or stores in m.Err why it cannot.
func (f *Finder) open(m *Module, isProgram bool) {
	if isProgram && f.Exe != "" {
		m.Err = f.try(m, f.Exe, f.Files.Open)
		return
	}
	m.Err = errNotFound
	if f.Process != nil {
		if m.Err = f.live(m); m.Err == nil {
			return
		}
	}
	tried := func(path string, open func(string) (*reader.File, error)) bool {
		err := f.try(m, path, open)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			m.Err = err
		}
		return err == nil
	}
	path, gone := strings.CutSuffix(m.Path, deleted)
	if (!gone || m.buildID != "") && tried(path, f.own) { // without a build ID, another file may have the path now
		return
	}
	for _, path := range f.inFolders(m) {
		if tried(path, f.Files.Open) {
			return
		}
	}
}

// own opens the file that the process had at path.
func (f *Finder) own(path string) (*reader.File, error) {
	if f.Root == nil {
		return f.Files.Open(path)
	}
	return f.Files.Below(f.Root, path)
}

// live opens the file that the live process has mapped.
func (f *Finder) live(m *Module) error {
	all, err := f.Process.Maps()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(l process.Mapping) bool {
		return l.Start == m.mappings[0].Start && l.Offset == m.mappings[0].Offset && l.File()
	})
	if at < 0 {
		return process.ErrGone
	}
	file, err := f.Files.Mapped(f.Process, all[at])
	if err != nil {
		return err
	}
	m.found, m.lacksID = m.Path, false
	return closeOn(m.use(file), file)
}

// try opens path as the file of m. It must have m's build ID, if that is known.
func (f *Finder) try(m *Module, path string, open func(string) (*reader.File, error)) error {
	file, err := open(path)
	if err != nil {
		return err
	}
	if err := m.use(file); err != nil {
		return errors.Join(fmt.Errorf("open %s: %w", path, err), file.Close())
	}
	m.found = path
	if id := m.ELF.BuildID(); m.buildID != "" && id != m.buildID {
		err := fmt.Errorf("%s has the build ID %s, not %s", path, id, m.buildID)
		err = errors.Join(err, m.ELF.Close())
		m.ELF, m.file, m.found, m.Bias = nil, nil, "", 0
		return err
	}
	return nil
}

func closeOn(err error, c io.Closer) error {
	if err == nil {
		return nil
	}
	return errors.Join(err, c.Close())
}

// inFolders returns the files in the folders that may be m's.
func (f *Finder) inFolders(m *Module) []string {
	if len(f.Folders) == 0 {
		return nil
	}
	var paths []string
	if id := m.buildID; len(id) > 2 {
		for _, folder := range f.Folders {
			base := filepath.Join(folder, ".build-id", id[:2], id[2:])
			for _, path := range []string{base, base + ".debug"} {
				if found, ok := fileBuildID(path); ok && found == id {
					paths = append(paths, path)
				}
			}
		}
		f.search()
		return append(paths, f.ids[id]...)
	}
	for _, folder := range f.Folders {
		paths = append(paths, filepath.Join(folder, filepath.Base(strings.TrimSuffix(m.Path, deleted))))
	}
	return paths
}

// maxFiles bounds the files inspected in the folders.
const maxFiles = 1 << 16

// search records the build IDs of all files in and below the folders.
func (f *Finder) search() {
	if f.ids != nil {
		return
	}
	f.ids = make(map[string][]string)
	left := maxFiles
	for _, folder := range f.Folders {
		filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return nil // skip what cannot be read
			}
			if left--; left < 0 {
				return fs.SkipAll
			}
			if id, ok := fileBuildID(path); ok {
				f.ids[id] = append(f.ids[id], path)
			}
			return nil
		})
	}
}

// fileBuildID returns the build ID of an ELF file that contains code: a file with only
// debug symbols is not what was mapped.
func fileBuildID(path string) (id string, ok bool) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	opened, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer opened.Close()
	file, err := elfsym.Parse(opened)
	if err != nil {
		return "", false
	}
	note, text := file.Section(".note.gnu.build-id"), file.Section(".text")
	if note == nil || note.Size > maxNote || text != nil && text.Type == elf.SHT_NOBITS {
		return "", false
	}
	data, err := note.Data()
	if err != nil {
		return "", false
	}
	id = noteBuildID(data)
	return id, id != ""
}
