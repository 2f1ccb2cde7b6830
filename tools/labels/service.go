package labels

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"ustack/symbolize/process"
)

// A Source is where the name of a service comes from.
type Source struct {
	kind  string
	value string // of a variable or a name
}

// The kinds of sources, and what follows those that take a value.
const (
	fromVariable  = "env"
	fromName      = "name"
	fromUnit      = "unit"
	fromContainer = "container"
	fromScript    = "script"
	fromComm      = "comm"
)

// Sources lists the sources as users write them.
const Sources = "env:VARIABLE, unit, container, script, comm, name:NAME"

// DefaultSources are the variable that OpenTelemetry's SDKs read, then the name of the
// container in its pod, the unit of systemd, the script and the process's name.
func DefaultSources() []Source {
	return []Source{{fromVariable, "OTEL_SERVICE_NAME"}, {kind: fromContainer}, {kind: fromUnit}, {kind: fromScript}, {kind: fromComm}}
}

// ParseSource returns the source that users write so.
func ParseSource(text string) (Source, error) {
	kind, value, _ := strings.Cut(text, ":")
	takes := kind == fromVariable || kind == fromName
	switch kind {
	case fromVariable, fromName, fromUnit, fromContainer, fromScript, fromComm:
	default:
		return Source{}, fmt.Errorf("%q is not one of %s", text, Sources)
	}
	if takes && (value == "" || strings.ContainsAny(value, "=\x00")) {
		return Source{}, fmt.Errorf("%q names nothing (write %s)", text, Sources)
	}
	if !takes && text != kind {
		return Source{}, fmt.Errorf("%q takes no value (write %s)", kind, Sources)
	}
	return Source{kind, value}, nil
}

// String returns the source as users write it.
func (s Source) String() string {
	if s.value == "" {
		return s.kind
	}
	return s.kind + ":" + s.value
}

// A subject is a process whose service is sought, with what is known of it.
type subject struct {
	pid     int
	process *process.Process
	cgroup  string
	pod     pod
}

// service returns the name of the process's service from the first source that has one.
func (r *Reader) service(of *subject) string {
	for _, s := range r.o.Service {
		if name := s.of(of); name != "" {
			return name
		}
	}
	return ""
}

func (s Source) of(p *subject) string {
	switch s.kind {
	case fromVariable:
		return variable(p.pid, s.value)
	case fromName:
		return s.value
	case fromUnit:
		return unit(p.cgroup)
	case fromContainer:
		return p.pod.container
	case fromScript:
		if words := strings.SplitN(p.process.Title(), " ", 3); len(words) == 3 && !strings.HasPrefix(words[2], "-") {
			return words[2]
		}
		return ""
	}
	comm, err := p.process.Comm()
	if err != nil {
		return "" // it has ended
	}
	return comm
}

// unit returns the outermost service of systemd on the path of a control group, without its
// suffix; empty if there is none. A user's own services are below that of the user's manager.
func unit(cgroup string) string {
	for name := range strings.SplitSeq(cgroup, "/") {
		if service, ok := strings.CutSuffix(name, ".service"); ok && !strings.HasPrefix(service, "user@") {
			return service
		}
	}
	return ""
}

// maxEnvironment bounds what is read of a process's environment: the kernel takes no more than
// 6 MiB for it and the arguments together, unless limits were raised.
const maxEnvironment = 6 << 20

// variable returns what a variable was in the process's environment when it started; empty if
// it was not there. Nothing else of the environment is kept.
func variable(pid int, name string) string {
	f, err := os.Open(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return ""
	}
	defer f.Close()
	return find(io.LimitReader(f, maxEnvironment), name)
}

// find returns the value of a variable in an environment: entries that end with a zero byte.
func find(environment io.Reader, name string) string {
	entries := bufio.NewReaderSize(environment, len(name)+len("=")+maxValue)
	for first := true; ; {
		part, err := entries.ReadSlice(0)
		if first {
			if value, ok := strings.CutPrefix(string(part), name+"="); ok {
				return strings.TrimSuffix(value, "\x00")
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return ""
		}
		first = err == nil
	}
}
