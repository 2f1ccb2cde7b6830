package check

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// An Access is what a tool does to a process.
type Access int

const (
	Read Access = iota // read its mappings, files and memory
	Dump               // read all of its memory, for a core
)

// Process returns an error that names the capability missing for this access to
// process pid; nil if it is allowed. It does not report that the process does
// not exist.
func Process(pid int, access Access) error {
	if err := readable(pid); err != nil {
		return refused(pid, Ptrace, err)
	}
	if access == Read {
		return nil
	}
	for _, name := range []string{"mem", "pagemap"} { // of modes 0600 and 0400, owned by the process's owner
		f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, name))
		if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
			return refused(pid, DACOverride, err)
		}
		if err == nil {
			_ = f.Close() // nothing was read
		}
	}
	return nil
}

// Signal returns an error that names the capability missing to send signals to
// process pid; nil if it is allowed.
func Signal(pid int) error {
	if err := unix.Kill(pid, 0); errors.Is(err, unix.EPERM) {
		return fmt.Errorf("process %d may not be sent signals, as to resume it: %w", pid, lacking(Kill))
	}
	return nil
}

// readable returns the kernel's refusal to read a byte of the process's memory.
// Nothing is mapped at the address: the kernel refuses before it looks it up.
func readable(pid int) error {
	var to [1]byte
	local := unix.Iovec{Base: &to[0]}
	local.SetLen(len(to))
	_, err := unix.ProcessVMReadv(pid, []unix.Iovec{local}, []unix.RemoteIovec{{Base: 0, Len: len(to)}}, 0)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return err
	}
	return nil
}

// refused says why the kernel denied access to process pid.
func refused(pid int, needed Capability, err error) error {
	switch ok, capErr := held(needed); {
	case capErr != nil:
		return capErr
	case !ok:
		return fmt.Errorf("process %d may not be read: %w", pid, lacking(needed))
	case !firstUserNamespace():
		return fmt.Errorf("process %d may not be read: it is not of our user namespace, so %v does not count (run as root of the machine itself)", pid, needed)
	}
	return fmt.Errorf("process %d may not be read: %w (though we have %v: see kernel.yama.ptrace_scope, or the container's seccomp profile)", pid, err, needed)
}
