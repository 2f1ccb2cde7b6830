package loader

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Iterate runs an iterator's program once for each of what the kernel has (iter/task_file,
// Linux 5.8).
func Iterate(program *ebpf.Program) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("iterate by %v: %w", program, explain(err))
		}
	}()
	iterator, err := link.AttachIter(link.IterOptions{Program: program})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, iterator.Close()) }()
	output, err := iterator.Open()
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, output) // the programs write nothing
	return errors.Join(err, output.Close())
}
