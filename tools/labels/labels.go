// Package labels says who a process is, for those who look at the profiles of many: which
// service, in which container, pod and namespace, on which host.
//
// What a process says about itself, it may say falsely: its service, as far as it comes from
// its environment, its arguments or its name. All else comes from the kernel, the container
// runtime and Kubernetes.
package labels

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ustack/symbolize/process"
	"ustack/tools/containers"
	"ustack/tools/printable"
)

// A Label is a name with a value.
type Label struct {
	Name  string // by OpenTelemetry's conventions, as "k8s.pod.name"
	Short string // for receivers whose labels are words, as "pod"
	Value string // never empty
}

// PID is the name of the label that has a process's number.
const PID = "process.pid"

// maxValue bounds a value that a process chooses, in bytes.
const maxValue = 128

// Options say where labels come from.
type Options struct {
	Service []Source // of the service's name: the first that has one counts; DefaultSources if empty
	Host    string   // the host's name; what the kernel says if empty
	Fixed   []Label  // that all processes have, in place of others of the same name
	Logs    string   // where Kubernetes links containers' logs; LogLinks if empty
}

// A Reader reads the labels of processes. Its methods may be called concurrently.
type Reader struct {
	o    Options
	pods pods

	mutex sync.Mutex
	known map[int][]Label
}

// NewReader returns a Reader.
func NewReader(o Options) (*Reader, error) {
	if len(o.Service) == 0 {
		o.Service = DefaultSources()
	}
	if o.Host == "" {
		var err error
		if o.Host, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("find the host's name: %w", err)
		}
	}
	return &Reader{o: o, pods: pods{dir: cmp.Or(o.Logs, LogLinks)}, known: make(map[int][]Label)}, nil
}

// Read reads the labels of process pid, which has started or has a new program, and keeps
// them until Forget.
func (r *Reader) Read(pid int) {
	all := r.read(pid)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.known[pid] = all
}

// Knows reports whether process pid was read.
func (r *Reader) Knows(pid int) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	_, ok := r.known[pid]
	return ok
}

// Of returns the labels of process pid. A process that was not read has those of all.
func (r *Reader) Of(pid int) []Label {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if all, ok := r.known[pid]; ok {
		return all
	}
	return r.labels()
}

// Forget forgets processes that have ended. It returns how many have not.
func (r *Reader) Forget() (running int) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for pid := range r.known {
		if _, err := os.Lstat("/proc/" + strconv.Itoa(pid)); err != nil {
			delete(r.known, pid)
		}
	}
	return len(r.known)
}

// conventions are the names of what a process's labels say, in the order of labels' values.
var conventions = []Label{
	{Name: "host.name", Short: "host"},
	{Name: "service.name", Short: "service_name"},
	{Name: PID, Short: "pid"},
	{Name: "container.id", Short: "container_id"},
	{Name: "container.runtime.name", Short: "container_runtime"},
	{Name: "k8s.pod.uid", Short: "pod_uid"},
	{Name: "k8s.pod.name", Short: "pod"},
	{Name: "k8s.namespace.name", Short: "namespace"},
	{Name: "k8s.container.name", Short: "container"},
}

// labels returns the host's name and these values, of those that are not empty, and the fixed
// labels.
func (r *Reader) labels(values ...string) (all []Label) {
	for i, value := range append([]string{r.o.Host}, values...) {
		l := conventions[i]
		if l.Value = clean(value); value != "" && !r.fixed(l.Name) {
			all = append(all, l)
		}
	}
	return append(all, r.o.Fixed...)
}

func (r *Reader) fixed(name string) bool {
	return slices.ContainsFunc(r.o.Fixed, func(l Label) bool { return l.Name == name })
}

func (r *Reader) read(pid int) []Label {
	p, err := process.Open(pid)
	if err != nil {
		return r.labels() // it has ended
	}
	defer p.Close()
	group := cgroup(pid)
	id, runtime := containers.Outermost(group)
	in := r.pods.of(id)
	if !p.Alive() {
		return r.labels() // what was read may be of another process with its number
	}
	of := &subject{pid: pid, process: p, cgroup: group, pod: in}
	return r.labels(r.service(of), strconv.Itoa(pid), id, runtime, containers.Pod(group), in.name, in.namespace, in.container)
}

// clean returns a value as receivers can show it: valid UTF-8 on one line, within bounds.
func clean(value string) string {
	value = printable.String(value)
	if len(value) <= maxValue {
		return value
	}
	return strings.ToValidUTF8(value[:maxValue], "")
}

// Runtime returns the labels of a process that runs these versions of Node.js and V8; either
// may be empty.
func Runtime(node, v8 string) (all []Label) {
	if node != "" {
		all = append(all, Label{"process.runtime.name", "runtime", "nodejs"},
			Label{"process.runtime.version", "node_version", clean(strings.TrimPrefix(node, "v"))})
	}
	if v8 != "" {
		all = append(all, Label{"v8.version", "v8_version", clean(v8)})
	}
	return all
}

// words are what is not a word of a label's short name.
var words = regexp.MustCompile(`[^a-zA-Z0-9_]+`)

// name is what a label's name may be.
var name = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_.-]{0,63}$`)

// Parse returns the label that users write as NAME=VALUE.
func Parse(text string) (Label, error) {
	n, value, ok := strings.Cut(text, "=")
	if !ok || value == "" || !name.MatchString(n) {
		return Label{}, fmt.Errorf("%q does not have the form NAME=VALUE, as deployment.environment=test", text)
	}
	short := words.ReplaceAllString(n, "_")
	for _, l := range conventions {
		if l.Name == n {
			short = l.Short
		}
	}
	return Label{n, short, clean(value)}, nil
}

// maxCgroup bounds a process's list of control groups: a line for each of some 15 hierarchies,
// with a path of at most 4 kB.
const maxCgroup = 1 << 16

// cgroup returns the path of a process's control group: that of version 2, or else of the
// first hierarchy that has more than the root; empty if there is none.
func cgroup(pid int) string {
	f, err := os.Open(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxCgroup))
	if err != nil {
		return ""
	}
	return pathOf(string(text))
}

// pathOf returns the path in a cgroup file: cgroups(7).
func pathOf(cgroup string) string {
	found := ""
	for line := range strings.Lines(cgroup) {
		number, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		_, path, ok := strings.Cut(rest, ":")
		switch {
		case !ok || path == "/":
		case number == "0":
			return path
		case found == "":
			found = path
		}
	}
	return found
}
