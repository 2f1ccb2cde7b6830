package containers

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"ustack/symbolize/process"
)

// Bounds of what is read. A file that is larger names no container.
const (
	maxConfig  = 8 << 20  // bytes of a container's configuration; usually some KiB
	maxStorage = 64 << 20 // bytes of the list of all of Podman's containers
	maxEntries = 1 << 14  // of a folder
	maxName    = 512      // bytes
)

// sources are root folders below which runtimes keep their files: this process's own;
// in a container, where "kubectl debug node" mounts the host's; and that of the first
// process, if it may be read.
type sources []string

const (
	dockerContainers = "/var/lib/docker/containers"
	podmanStorage    = "/var/lib/containers/storage"
)

// bundleFolders hold containerd's tasks: of its own, k3s and RKE2, k0s, MicroK8s and Docker.
var bundleFolders = []string{
	"/run/containerd/io.containerd.runtime.v2.task",
	"/run/k3s/containerd/io.containerd.runtime.v2.task",
	"/run/k0s/containerd/io.containerd.runtime.v2.task",
	"/var/snap/microk8s/common/run/containerd/io.containerd.runtime.v2.task",
	"/run/docker/containerd/daemon/io.containerd.runtime.v2.task",
}

// name adds the names of containers, as far as they are known.
func (s sources) name(all map[string]*Container) {
	for _, root := range s {
		s.podman(root, all)
		for _, c := range all {
			if len(c.names) == 0 && c.group == "" {
				c.docker(root)
				c.containerd(root)
			}
		}
	}
}

// docker reads the name that Docker gave the container.
func (c *Container) docker(root string) {
	var config struct{ Name string }
	if read(root, path.Join(dockerContainers, c.ID, "config.v2.json"), maxConfig, &config) == nil {
		c.called("docker", strings.TrimPrefix(config.Name, "/"))
	}
}

// podman reads the names of the containers of Podman and CRI-O, which share a storage.
func (s sources) podman(root string, all map[string]*Container) {
	for _, folder := range entries(root, podmanStorage) {
		if !strings.HasSuffix(folder, "-containers") { // as "overlay-containers"
			continue
		}
		for _, file := range []string{"containers.json", "volatile-containers.json"} {
			var list []struct {
				ID    string
				Names []string
			}
			if read(root, path.Join(podmanStorage, folder, file), maxStorage, &list) != nil {
				continue
			}
			for _, stored := range list {
				if c := all[stored.ID]; c != nil && len(c.names) == 0 && len(stored.Names) > 0 {
					c.called("podman", stored.Names[0])
				}
			}
		}
	}
}

// containerd reads the name from the configuration of containerd's task.
func (c *Container) containerd(root string) {
	for _, folder := range bundleFolders {
		for _, namespace := range entries(root, folder) {
			var b bundle
			if read(root, path.Join(folder, namespace, c.ID, "config.json"), maxConfig, &b) != nil {
				continue
			}
			by := "containerd"
			if namespace == "moby" {
				by = "docker"
			}
			c.called(by, b.name()...)
			return
		}
	}
}

// bundles returns the containers of containerd whose names the user chose in place of
// IDs, as with "ctr run IMAGE NAME".
func (s sources) bundles() []Container {
	var all []Container
	for _, root := range s {
		for _, folder := range bundleFolders {
			for _, namespace := range entries(root, folder) {
				for _, id := range entries(root, path.Join(folder, namespace)) {
					var b bundle
					if isID(id) || read(root, path.Join(folder, namespace, id, "config.json"), maxConfig, &b) != nil || b.group() == "" {
						continue
					}
					c := Container{ID: id, group: b.group()}
					c.called("containerd", namespace+"/"+id, id)
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// A bundle is what an OCI runtime is told about a container.
type bundle struct {
	Annotations map[string]string
	Linux       struct{ CgroupsPath string }
}

// name returns the container's names: what its orchestrator calls it.
func (b *bundle) name() []string {
	get := func(keys ...string) string {
		for _, key := range keys {
			if value := b.Annotations[key]; value != "" {
				return value
			}
		}
		return ""
	}
	pod := get("io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name")
	if pod == "" {
		return []string{get("nerdctl/name")}
	}
	container := get("io.kubernetes.cri.container-name", "io.kubernetes.container.name")
	if get("io.kubernetes.cri.container-type") == "sandbox" {
		container = sandbox
	}
	return ofPod(get("io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"), pod, container)
}

// sandbox is the name of the container that holds the namespaces of a pod.
const sandbox = "POD"

// ofPod returns the names of a pod's container. All sandboxes have one name: it is none.
func ofPod(namespace, pod, container string) []string {
	names := []string{path.Join(namespace, pod, container), path.Join(pod, container)}
	if container != sandbox {
		names = append(names, container)
	}
	return names
}

// group returns the control group as a path, if it is one: not SLICE:PREFIX:NAME, whose
// names have an ID.
func (b *bundle) group() string {
	if group := b.Linux.CgroupsPath; strings.HasPrefix(group, "/") && path.Clean(group) != "/" {
		return path.Clean(group)
	}
	return ""
}

// called notes the container's names. The kubelet has names with Docker and CRI-O that
// tell the pod: k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT.
func (c *Container) called(by string, names ...string) {
	c.Runtime = cmp.Or(c.Runtime, by)
	for _, name := range names {
		if parts := strings.Split(name, "_"); len(parts) == 6 && parts[0] == "k8s" {
			c.names = append(c.names, ofPod(parts[3], parts[2], parts[1])...)
		}
		if name != "" && len(name) <= maxName {
			c.names = append(c.names, name)
		}
	}
}

var errNotTrusted = errors.New("not a file of root's alone, or too long")

// read reads a JSON file below root. It must belong to root, and only root may write it.
func read(root, name string, limit int64, into any) error {
	f, err := process.OpenBelow(root, name)
	if err != nil {
		return err
	}
	defer f.Close()
	if !trusted(f) {
		return errNotTrusted
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return err
	}
	if int64(len(text)) > limit {
		return errNotTrusted
	}
	return json.Unmarshal(text, into)
}

// entries returns what is in a folder of root's below root, sorted; nothing if there is
// no such folder.
func entries(root, name string) []string {
	f, err := process.OpenFolderBelow(root, name)
	if err != nil {
		return nil
	}
	defer f.Close()
	if !trusted(f) {
		return nil
	}
	names, err := f.Readdirnames(maxEntries)
	if err != nil {
		return nil
	}
	slices.Sort(names)
	return names
}

// trusted reports whether a file belongs to root, and only root may write it.
func trusted(f *os.File) bool {
	var stat unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &stat)
	return err == nil && stat.Uid == 0 && stat.Mode&0o022 == 0
}
