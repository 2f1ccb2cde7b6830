package loader

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// A Probe is where a program is to run in a process.
type Probe struct {
	Program *ebpf.Program
	Path    string // of the file; the kernel keeps to the file, whatever becomes of its path
	Symbol  string // for messages
	Offset  uint64 // of the function in the file
	Return  bool   // when the function returns, instead of when it is entered
	PID     int    // in this process only
	Cookie  uint64 // the program can ask for it
}

// AttachProbe runs the probe's program until the link is closed, or we end.
func AttachProbe(p Probe) (link.Link, error) {
	executable, err := link.OpenExecutable(p.Path)
	if err != nil {
		return nil, fmt.Errorf("probe %s: %w", p.Symbol, err)
	}
	attach := executable.Uprobe
	if p.Return {
		attach = executable.Uretprobe
	}
	l, err := attach(p.Symbol, p.Program, &link.UprobeOptions{Address: p.Offset, PID: p.PID, Cookie: p.Cookie})
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil, fmt.Errorf("probe %s in process %d: %w", p.Symbol, p.PID, err)
	case err != nil:
		return nil, fmt.Errorf("probe %s: %w", p.Symbol, explain(err))
	}
	return l, nil
}
