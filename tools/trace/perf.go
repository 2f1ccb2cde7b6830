package trace

import (
	"errors"
	"fmt"
	"os"
	"time"

	"ustack/symbolize"
	"ustack/symbolize/perfmap"
	"ustack/symbolize/process"
	"ustack/symbolize/reader"
)

// A perfNames is what a process's perf map says about code that it compiles, empty
// if it writes no map.
type perfNames struct {
	file   *perfmap.Map
	opened bool
	read   time.Time
}

// lookup names the code at pc. If it is not in the map, lookup reads what was added
// to the map since, from time to time.
func (n *perfNames) lookup(files *reader.Reader, p *process.Process, pc uint64) (f symbolize.Frame, ok bool, err error) {
	if !n.opened {
		n.opened = true
		n.file, err = openPerfMap(files, p)
	}
	if n.file == nil {
		return f, false, err
	}
	symbol, ok := n.file.Lookup(pc)
	if !ok && time.Since(n.read) > patience {
		n.read = time.Now()
		err = errors.Join(err, n.file.Refresh())
		symbol, ok = n.file.Lookup(pc)
	}
	return symbolize.Frame{Name: symbol.Name, Module: jit, Offset: pc - symbol.Start}, ok, err
}

// jit is the module name of code that is in no file.
const jit = "[jit]"

// openPerfMap opens p's perf map; nil if it writes none. If lines were skipped, it
// returns the map and an error.
func openPerfMap(files *reader.Reader, p *process.Process) (*perfmap.Map, error) {
	file, err := files.PerfMap(p)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the perf map of process %d: %w", p.PID(), err)
	}
	m, err := perfmap.Open(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("process %d: %w", p.PID(), err), file.Close())
	}
	if n := m.Skipped(); n > 0 {
		return m, fmt.Errorf("perf map of process %d: skipped %d of its lines (want ADDRESS SIZE NAME)", p.PID(), n)
	}
	return m, nil
}

// close closes the file; what was read from it has been looked up already.
func (n *perfNames) close() error {
	if n.file == nil {
		return nil
	}
	return n.file.Close()
}
