package check

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A Capability is one of capabilities(7), by the kernel's number.
type Capability int

// Capabilities that the tools need.
const (
	BPF           Capability = unix.CAP_BPF
	Perfmon       Capability = unix.CAP_PERFMON
	Ptrace        Capability = unix.CAP_SYS_PTRACE
	Kill          Capability = unix.CAP_KILL
	Syslog        Capability = unix.CAP_SYSLOG
	DACOverride   Capability = unix.CAP_DAC_OVERRIDE
	DACReadSearch Capability = unix.CAP_DAC_READ_SEARCH
	admin         Capability = unix.CAP_SYS_ADMIN
)

var capabilityNames = map[Capability]string{
	BPF: "CAP_BPF", Perfmon: "CAP_PERFMON", Ptrace: "CAP_SYS_PTRACE", Kill: "CAP_KILL", Syslog: "CAP_SYSLOG",
	DACOverride: "CAP_DAC_OVERRIDE", DACReadSearch: "CAP_DAC_READ_SEARCH", admin: "CAP_SYS_ADMIN",
}

func (c Capability) String() string { return capabilityNames[c] }

// instead holds capabilities that include another one.
var instead = map[Capability]Capability{BPF: admin, Perfmon: admin, Syslog: admin, DACOverride: DACReadSearch}

// held reports whether this process has the capability, or one that includes
// it. Here DACOverride is only ever needed to read, which DACReadSearch allows
// too.
func held(c Capability) (bool, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false, fmt.Errorf("read our capabilities: %w", err)
	}
	has := func(c Capability) bool { return data[c/32].Effective&(1<<(c%32)) != 0 }
	other, ok := instead[c]
	return has(c) || ok && has(other), nil
}

// Capabilities returns an error that names the needed capabilities that this
// process lacks; nil if it has all of them.
func Capabilities(needed ...Capability) error {
	var missing []Capability
	for _, c := range needed {
		ok, err := held(c)
		if err != nil {
			return err
		}
		if !ok && !slices.Contains(missing, c) {
			missing = append(missing, c)
		}
	}
	if len(missing) > 0 {
		return lacking(missing...)
	}
	if len(needed) > 0 && !firstUserNamespace() {
		return errors.New("capabilities do not count in a user namespace (run as root of the machine itself, not of a rootless container)")
	}
	return nil
}

// lacking says which capabilities are missing and what to do about it.
func lacking(missing ...Capability) error {
	verb := "is"
	if len(missing) > 1 {
		verb = "are"
	}
	return fmt.Errorf("%w: %s %s missing (run as root, or with %[2]s)", unix.EPERM, list(missing), verb)
}

// list returns "A, B and C".
func list(all []Capability) string {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.String()
	}
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// firstUserNamespace reports whether this process's capabilities apply to the
// whole machine: most of the kernel checks them in the initial user namespace,
// whose inode is PROC_USER_INIT_INO (include/linux/proc_ns.h).
func firstUserNamespace() bool {
	target, err := os.Readlink("/proc/self/ns/user")
	return err != nil || target == "user:[4026531837]"
}
