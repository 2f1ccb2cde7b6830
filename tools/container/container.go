// Package container tells from the path of a control group which container a process is in.
// Container runtimes name the groups that they make after their containers, and Kubernetes
// after its pods.
package container

import (
	"regexp"
	"strings"
)

// A Container is what the path of a control group says about a container. The runtimes write
// it, not the processes in the container.
type Container struct {
	Runtime string // as "docker", "containerd", "cri-o", "podman"; empty if the path does not say
	ID      string // 64 hexadecimal digits
	Pod     string // the UID of its pod in Kubernetes, as the API writes it; empty without one
}

var (
	containerID = regexp.MustCompile(`^(?:(.*)-)?([0-9a-f]{64})(?:\.scope)?$`)
	podUID      = regexp.MustCompile(`(?:^|-)pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?$`)
)

// runtimes are the names of runtimes, by what they write before a container's ID or as the
// name of the group that holds its group.
var runtimes = map[string]string{
	"docker":         "docker",
	"cri-containerd": "containerd",
	"nerdctl":        "containerd",
	"crio":           "cri-o",
	"libpod":         "podman",
	"libpod_parent":  "podman",
}

// monitors end the prefix of groups that hold a container's monitor, not the container.
const monitors = "conmon"

// FromCgroup returns the container whose group is on a path, as /proc/PID/cgroup has it. If
// there are several, it is the outermost: whoever is root in a container can make groups of any
// name below its own.
func FromCgroup(path string) (Container, bool) {
	var c Container
	above := ""
	for name := range strings.SplitSeq(path, "/") {
		if m := podUID.FindStringSubmatch(name); m != nil && c.Pod == "" {
			c.Pod = strings.ReplaceAll(m[1], "_", "-")
		}
		if m := containerID.FindStringSubmatch(name); m != nil && !strings.HasSuffix(m[1], monitors) {
			c.Runtime, c.ID = runtimes[m[1]], m[2]
			if m[1] == "" {
				c.Runtime = runtimes[above]
			}
			return c, true
		}
		above = name
	}
	return Container{}, false
}
