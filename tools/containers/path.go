package containers

import (
	"regexp"
	"strings"
)

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

// Outermost returns the ID and the runtime of the outermost container around a control group; of
// it alone, for whoever is root in a container can make groups of any name below its own. The
// runtime is empty if the path does not tell, the ID if there is no container.
func Outermost(path string) (id, runtime string) {
	if all := inPath(path); len(all) > 0 {
		return all[0].id, all[0].runtime
	}
	return "", ""
}

var podUID = regexp.MustCompile(`(?:^|-)pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?$`)

// Pod returns the UID, as Kubernetes' API writes it, of the outermost pod that a control group's
// path names above a container; empty if there is none.
func Pod(path string) string {
	uid := ""
	above := ""
	for name := range strings.SplitSeq(path, "/") {
		if m := podUID.FindStringSubmatch(name); m != nil && uid == "" {
			uid = strings.ReplaceAll(m[1], "_", "-")
		}
		if _, ok := inName(name, above); ok {
			return uid
		}
		above = name
	}
	return ""
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
