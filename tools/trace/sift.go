package trace

import (
	"fmt"
	"sync"

	"ustack/symbolize/process"
	"ustack/symbolize/v8"
)

// maxSifted bounds the files without V8 that are kept open, so that they are recognized: most
// programs that a machine starts are few.
const maxSifted = 64

// sifted are files that hold no V8. Of these, nothing but that is known.
type sifted struct {
	mutex sync.Mutex
	files map[FileID]*binary
	order []FileID // the oldest first
}

// sift returns an error that wraps v8.ErrNotV8 if none of the files whose code process pid
// runs holds V8. Most processes of a machine do not: their files need not be read any further,
// nor kept, nor take room in the kernel.
func (t *Table) sift(pid int) error {
	p, err := process.Open(pid)
	if err != nil {
		return err
	}
	defer p.Close()
	all, err := p.Maps()
	if err != nil {
		return err
	}
	code := 0
	t.sifted.mutex.Lock()
	defer t.sifted.mutex.Unlock()
	for _, m := range all {
		if !hasCode(m) || !m.File() {
			continue
		}
		code++
		if t.mayHoldV8(p, m) {
			return nil
		}
	}
	if code == 0 { // a kernel thread, or a process that has exited
		return process.ErrGone
	}
	return fmt.Errorf("process %d: %w (only native frames are named)", pid, v8.ErrNotV8)
}

// mayHoldV8 reports whether the file of m holds V8, or cannot be read.
func (t *Table) mayHoldV8(p *process.Process, m process.Mapping) bool {
	id := fileOf(m)
	if t.sifted.files[id] != nil {
		return false
	}
	t.mutex.Lock()
	known := t.binaries[id]
	t.mutex.Unlock()
	if known != nil {
		return known.v8 != nil || known.err != nil
	}
	b := t.openBinary(p, m)
	b.parse()
	switch {
	case b.v8 != nil:
		b.rules = b.unwindRules()
		t.mutex.Lock()
		t.keep(m, b)
		t.mutex.Unlock()
		return true
	case b.err != nil: // Add says why
		b.close()
		return true
	}
	t.sifted.keep(id, &binary{path: b.path, file: b.file})
	return false
}

// keep keeps a file open: another file cannot have its ID meanwhile.
func (s *sifted) keep(id FileID, b *binary) {
	if s.files == nil {
		s.files = make(map[FileID]*binary)
	}
	if len(s.order) == maxSifted {
		s.files[s.order[0]].close()
		delete(s.files, s.order[0])
		s.order = s.order[1:]
	}
	s.files[id] = b
	s.order = append(s.order, id)
}

// close closes all files.
func (s *sifted) close() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, b := range s.files {
		b.close()
	}
	s.files, s.order = nil, nil
}
