package containers

import "strings"

// A member is what a control group's path tells about one container around it.
type member struct {
	id      string
	runtime string
}

// runtimes are what stands before the ID in the name of a container's control group.
var runtimes = map[string]string{
	"docker": "docker", "cri-containerd": "containerd", "nerdctl": "containerd", "crio": "cri-o",
	"libpod": "podman", "libpod-payload": "podman",
}

// inPath returns the containers around a control group, the outermost first. Runtimes
// name a container's group, with the driver "systemd",
//
//	docker-ID.scope  cri-containerd-ID.scope  crio-ID.scope  libpod-ID.scope
//
// and with the driver "cgroupfs" ID, libpod-ID or, if one is given the other's names,
// SLICE:cri-containerd:ID.
func inPath(path string) []member {
	var all []member
	above := ""
	for name := range strings.SplitSeq(path, "/") {
		if m, ok := inName(name, above); ok {
			all = append(all, m)
		}
		above = name
	}
	return all
}

// inName returns the container whose control group has this name, below another one.
func inName(name, above string) (member, bool) {
	name = strings.TrimSuffix(name, ".scope")
	at := strings.LastIndexAny(name, "-:") + 1
	id := name[at:]
	if !isID(id) {
		return member{}, false
	}
	if at == 0 {
		pod := above == "libpod_parent" // and no container
		return member{id, runtimes[above]}, !pod
	}
	by := name[:at-1]
	by = by[strings.LastIndex(by, ":")+1:]
	monitor := strings.HasSuffix(by, "conmon") // which is outside of the container
	return member{id, runtimes[by]}, !monitor
}

// isID reports whether a text is a container's full ID.
func isID(text string) bool { return len(text) == 64 && isHex(text) }

func isHex(text string) bool { return text != "" && strings.Trim(text, "0123456789abcdef") == "" }
