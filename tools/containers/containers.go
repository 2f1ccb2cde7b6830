// Package containers finds the containers of this machine without asking a daemon: by
// the control groups of processes, whose paths hold the containers' IDs, and by the
// files in which Docker, Podman, CRI-O and containerd keep the containers' names.
//
// Those files are read within bounds, and only if they belong to root. So containers
// of rootless runtimes are found by ID only.
package containers

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ustack/loader"
	"ustack/symbolize/process"
)

// ErrNone means that no running container is the one that is asked for.
var ErrNone = errors.New("no such container is running")

const (
	shortID   = 12 // digits of an ID that are enough, and that runtimes print
	maxListed = 20 // containers in a message
)

// A Container is a container that has processes.
type Container struct {
	ID      string
	Runtime string // as "docker"; empty if the control group does not tell

	names []string // the one for people first
	group string   // its control group, if that does not have the ID in its path
}

// Has reports whether process pid is in the container, or in a container within it.
func (c *Container) Has(pid int) bool {
	return slices.ContainsFunc(process.Cgroups(pid), c.holds)
}

// holds reports whether a control group is the container's.
func (c *Container) holds(group string) bool {
	if c.group != "" {
		return process.Below(group, c.group)
	}
	return slices.ContainsFunc(inPath(group), func(m member) bool { return m.id == c.ID })
}

// String names the container for people: "web 3f2a1b4c5d6e (docker)".
func (c *Container) String() string {
	words := []string{short(c.ID)}
	if len(c.names) > 0 && c.names[0] != c.ID {
		words = []string{c.names[0], short(c.ID)}
	}
	if c.Runtime != "" {
		words = append(words, "("+c.Runtime+")")
	}
	return strings.Join(words, " ")
}

// short returns an ID as runtimes print it.
func short(id string) string {
	if isID(id) {
		return id[:shortID]
	}
	return id
}

// Find returns the running container with a name, or with an ID that begins with at
// least 12 given digits. If there is none, or more than one, the error names those
// that are running.
func Find(wanted string) (*Container, error) {
	all, err := list(sources{"/", "/host", "/proc/1/root"})
	if err != nil {
		return nil, err
	}
	return choose(all, wanted)
}

// list returns the containers that have processes, by name.
func list(from sources) ([]Container, error) {
	processes, err := process.List()
	if err != nil {
		return nil, err
	}
	named := from.bundles() // whose control groups do not have an ID in their paths
	found := map[string]*Container{}
	for _, p := range processes {
		for _, path := range process.Cgroups(p.PID) {
			for _, m := range inPath(path) {
				c := found[m.id]
				if c == nil {
					c = &Container{ID: m.id}
					found[m.id] = c
				}
				c.Runtime = cmp.Or(c.Runtime, m.runtime)
			}
			for i := range named {
				if named[i].holds(path) {
					found[named[i].group] = &named[i]
				}
			}
		}
	}
	from.name(found)
	var all []Container
	for _, c := range found {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b Container) int { return cmp.Compare(a.String(), b.String()) })
	return all, nil
}

// choose returns the only one that is wanted.
func choose(all []Container, wanted string) (*Container, error) {
	fits := matching(all, func(c Container) bool { return c.ID == wanted || slices.Contains(c.names, wanted) })
	if len(fits) == 0 && isHex(wanted) {
		fits = matching(all, func(c Container) bool { return isID(c.ID) && strings.HasPrefix(c.ID, wanted) })
		if len(fits) > 0 && len(wanted) < shortID {
			return nil, fmt.Errorf("container %s: give %d digits of the ID, of %s", wanted, shortID, inWords(fits))
		}
	}
	switch {
	case len(fits) == 1:
		return &fits[0], nil
	case len(fits) > 1:
		return nil, fmt.Errorf("container %s: it may be any of %s (give 12 or more digits of the ID)", wanted, inWords(fits))
	case len(all) > 0 && !slices.ContainsFunc(all, func(c Container) bool { return len(c.names) > 0 }):
		return nil, fmt.Errorf("container %s: %w; no names can be read here (give an ID) of these: %s", wanted, ErrNone, inWords(all))
	case len(all) > 0:
		return nil, fmt.Errorf("container %s: %w; these are: %s", wanted, ErrNone, inWords(all))
	}
	return nil, fmt.Errorf("container %s: %w, and no other (%s)", wanted, ErrNone, whereElse())
}

// whereElse says where containers may be that are not seen.
func whereElse() string {
	if inode, err := loader.PIDNamespace(); err == nil && inode != 0 {
		return "in a container, run with the host's PID namespace: --pid=host, hostPID"
	}
	return "a container's control group has its ID in its path: see /proc/PID/cgroup"
}

func matching(all []Container, fits func(Container) bool) []Container {
	var some []Container
	for _, c := range all {
		if fits(c) {
			some = append(some, c)
		}
	}
	return some
}

func inWords(all []Container) string {
	var words []string
	for _, c := range all[:min(len(all), maxListed)] {
		words = append(words, c.String())
	}
	if more := len(all) - len(words); more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, ", ")
}
