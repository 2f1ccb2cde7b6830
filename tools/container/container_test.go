package container

import (
	"strings"
	"testing"
)

var (
	id    = strings.Repeat("0123456789abcdef", 4)
	other = strings.Repeat("fedcba9876543210", 4)
)

const (
	uid    = "8d2ff8a2-6c0a-4a3c-9f4e-2b1f0e1d7a55"
	static = "0f1e2d3c4b5a69788796a5b4c3d2e1f0" // of a pod that a file of the kubelet's describes
)

// TestContainersAreFound has the paths that each runtime makes by each of its cgroup drivers.
func TestContainersAreFound(t *testing.T) {
	slice := "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice/"
	for _, test := range []struct {
		path string
		want Container
	}{
		{"/system.slice/docker-" + id + ".scope", Container{"docker", id, ""}},
		{"/docker/" + id, Container{"docker", id, ""}},
		{"/docker/" + id + "/init.scope", Container{"docker", id, ""}},
		{slice + "cri-containerd-" + id + ".scope", Container{"containerd", id, uid}},
		{slice + "crio-" + id + ".scope", Container{"cri-o", id, uid}},
		{slice + "docker-" + id + ".scope", Container{"docker", id, uid}},
		{"/kubepods/besteffort/pod" + uid + "/" + id, Container{"", id, uid}},
		{"/kubepods/pod" + static + "/" + id, Container{"", id, static}},
		{"/system.slice/nerdctl-" + id + ".scope", Container{"containerd", id, ""}},
		{"/machine.slice/libpod-" + id + ".scope/container", Container{"podman", id, ""}},
		{"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id + ".scope", Container{"podman", id, ""}},
		{"/libpod_parent/libpod-" + id, Container{"podman", id, ""}},
	} {
		got, ok := FromCgroup(test.path)
		if !ok || got != test.want {
			t.Errorf("FromCgroup(%q) = %+v, %v, want %+v", test.path, got, ok, test.want)
		}
	}
}

func TestOtherGroupsAreNoContainers(t *testing.T) {
	for _, path := range []string{
		"", "/", "/system.slice/ssh.service", "/user.slice/user-1000.slice/session-1.scope",
		"/system.slice/docker-" + id[1:] + ".scope",
		"/system.slice/docker-" + id + "0.scope",
		"/system.slice/docker-" + strings.ToUpper(id) + ".scope",
		"/machine.slice/libpod-conmon-" + id + ".scope",
		"/kubepods/pod" + uid,
	} {
		if got, ok := FromCgroup(path); ok {
			t.Errorf("FromCgroup(%q) = %+v, want none", path, got)
		}
	}
}

// TestContainersCannotPoseAsOthers has groups that root in a container made below its own.
func TestContainersCannotPoseAsOthers(t *testing.T) {
	for _, below := range []string{
		"/docker-" + other + ".scope", "/" + other, "/kubepods/pod" + uid + "/" + other,
	} {
		got, ok := FromCgroup("/system.slice/docker-" + id + ".scope" + below)
		if want := (Container{"docker", id, ""}); !ok || got != want {
			t.Errorf("with %s below: %+v, %v, want %+v", below, got, ok, want)
		}
	}
}
