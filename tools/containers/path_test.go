package containers

import (
	"strings"
	"testing"
)

var (
	oneID   = strings.Repeat("0123456789abcdef", 4)
	otherID = strings.Repeat("fedcba9876543210", 4)
)

// around is what a path tells of the outermost container and its pod.
type around struct{ runtime, id, pod string }

func aroundGroup(path string) (a around, ok bool) {
	a.id, a.runtime = Outermost(path)
	a.pod = Pod(path)
	return a, a.id != ""
}

const (
	podID    = "8d2ff8a2-6c0a-4a3c-9f4e-2b1f0e1d7a55"
	staticID = "0f1e2d3c4b5a69788796a5b4c3d2e1f0" // of a pod that a file of the kubelet's describes
)

// TestContainersAreFound has the paths that each runtime makes by each of its cgroup drivers.
func TestContainersAreFound(t *testing.T) {
	slice := "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + strings.ReplaceAll(podID, "-", "_") + ".slice/"
	for _, test := range []struct {
		path string
		want around
	}{
		{"/system.slice/docker-" + oneID + ".scope", around{"docker", oneID, ""}},
		{"/docker/" + oneID, around{"docker", oneID, ""}},
		{"/docker/" + oneID + "/init.scope", around{"docker", oneID, ""}},
		{slice + "cri-containerd-" + oneID + ".scope", around{"containerd", oneID, podID}},
		{slice + "crio-" + oneID + ".scope", around{"cri-o", oneID, podID}},
		{slice + "docker-" + oneID + ".scope", around{"docker", oneID, podID}},
		{"/kubepods/besteffort/pod" + podID + "/" + oneID, around{"", oneID, podID}},
		{"/kubepods/pod" + staticID + "/" + oneID, around{"", oneID, staticID}},
		{"/system.slice/nerdctl-" + oneID + ".scope", around{"containerd", oneID, ""}},
		{"/machine.slice/libpod-" + oneID + ".scope/container", around{"podman", oneID, ""}},
		{"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + oneID + ".scope", around{"podman", oneID, ""}},
		{"/libpod_parent/libpod-" + oneID, around{"podman", oneID, ""}},
	} {
		got, ok := aroundGroup(test.path)
		if !ok || got != test.want {
			t.Errorf("around %q = %+v, %v, want %+v", test.path, got, ok, test.want)
		}
	}
}

func TestOtherGroupsAreNoContainers(t *testing.T) {
	for _, path := range []string{
		"", "/", "/system.slice/ssh.service", "/user.slice/user-1000.slice/session-1.scope",
		"/system.slice/docker-" + oneID[1:] + ".scope",
		"/system.slice/docker-" + oneID + "0.scope",
		"/system.slice/docker-" + strings.ToUpper(oneID) + ".scope",
		"/machine.slice/libpod-conmon-" + oneID + ".scope",
		"/kubepods/pod" + podID,
	} {
		if got, ok := aroundGroup(path); ok {
			t.Errorf("around %q = %+v, want none", path, got)
		}
	}
}

// TestContainersCannotPoseAsOthers has groups that root in a container made below its own.
func TestContainersCannotPoseAsOthers(t *testing.T) {
	for _, below := range []string{
		"/docker-" + otherID + ".scope", "/" + otherID, "/kubepods/pod" + podID + "/" + otherID,
	} {
		got, ok := aroundGroup("/system.slice/docker-" + oneID + ".scope" + below)
		if want := (around{"docker", oneID, ""}); !ok || got != want {
			t.Errorf("with %s below: %+v, %v, want %+v", below, got, ok, want)
		}
	}
}
