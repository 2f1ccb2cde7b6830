package containers

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/process"
)

const (
	first  = "3f2a1b4c5d6e7f80918273645546372819a0b1c2d3e4f5061728394a5b6c7d8e"
	second = "3f2a1b4c5d6e0000000000000000000000000000000000000000000000000002"
	third  = "9c00000000000000000000000000000000000000000000000000000000000003"
)

// TestContainersAreKnownByTheirControlGroups has the paths that runtimes make.
func TestContainersAreKnownByTheirControlGroups(t *testing.T) {
	for path, want := range map[string][]member{
		"/docker/" + first:                                    {{first, "docker"}},
		"/docker/" + first + "/init.scope":                    {{first, "docker"}},
		"/system.slice/docker-" + first + ".scope":            {{first, "docker"}},
		"/../docker-" + first + ".scope":                      {{first, "docker"}}, // in a cgroup namespace
		"/machine.slice/libpod-" + first + ".scope/container": {{first, "podman"}},
		"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + first + ".scope": {{first, "podman"}},
		"/libpod_parent/libpod-" + first:                                                                               {{first, "podman"}},
		"/libpod_parent/" + second + "/libpod-" + first:                                                                {{first, "podman"}}, // of a pod
		"/system.slice/web.service/libpod-payload-" + first:                                                            {{first, "podman"}},
		"/libpod_parent/libpod-conmon-" + first:                                                                        nil,
		"/machine.slice/libpod-conmon-" + first + ".scope":                                                             nil,
		"/kubepods/burstable/pod11f3/" + first:                                                                         {{first, ""}},
		"/kubepods.slice/kubepods-pod11f3.slice/crio-" + first + ".scope":                                              {{first, "cri-o"}},
		"/kubepods.slice/crio-conmon-" + first + ".scope":                                                              nil,
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod11f3.slice/cri-containerd-" + first + ".scope": {{first, "containerd"}},
		"/system.slice/containerd.service/kubepods-burstable-pod11f3.slice:cri-containerd:" + first:                    {{first, "containerd"}},
		"/docker/" + first + "/kubelet/kubepods/pod11f3/" + second:                                                     {{first, "docker"}, {second, ""}},
		"/":                                 nil,
		"/user.slice/user-1000.slice":       nil,
		"/docker/" + first[1:]:              nil,
		"/docker/" + strings.ToUpper(first): nil,
	} {
		if diff := cmp.Diff(want, inPath(path), cmp.AllowUnexported(member{})); diff != "" {
			t.Errorf("containers in %s (-want +got):\n%s", path, diff)
		}
	}
}

func TestContainerIsChosenByNameOrID(t *testing.T) {
	all := []Container{
		{ID: first, Runtime: "docker", names: []string{"web"}},
		{ID: second, Runtime: "containerd", names: []string{"shop/web-0/app", "web-0/app", "app"}},
		{ID: third, Runtime: "containerd", names: []string{"shop/web-1/app", "web-1/app", "app"}},
		{ID: "abcdef", Runtime: "containerd", names: []string{"default/abcdef", "abcdef"}, group: "/default/abcdef"},
	}
	const these = "web 3f2a1b4c5d6e (docker), shop/web-0/app 3f2a1b4c5d6e (containerd), shop/web-1/app 9c0000000000 (containerd), default/abcdef abcdef (containerd)"
	for _, tt := range []struct{ wanted, id, err string }{
		{wanted: "web", id: first},
		{wanted: first, id: first},
		{wanted: first[:13], id: first},
		{wanted: third[:12], id: third},
		{wanted: "web-0/app", id: second},
		{wanted: "shop/web-1/app", id: third},
		{wanted: "abcdef", id: "abcdef"},
		{wanted: "default/abcdef", id: "abcdef"},
		{wanted: "app", err: "container app: it may be any of shop/web-0/app 3f2a1b4c5d6e (containerd), shop/web-1/app 9c0000000000 (containerd) (give 12 or more digits of the ID)"},
		{wanted: first[:12], err: "container 3f2a1b4c5d6e: it may be any of web 3f2a1b4c5d6e (docker), shop/web-0/app 3f2a1b4c5d6e (containerd) (give 12 or more digits of the ID)"},
		{wanted: third[:11], err: "container 9c000000000: give 12 digits of the ID, of shop/web-1/app 9c0000000000 (containerd)"},
		{wanted: "wbe", err: "container wbe: no such container is running; these are: " + these},
		{wanted: "abcde", err: "container abcde: no such container is running; these are: " + these},
		{wanted: "", err: "container : no such container is running; these are: " + these},
	} {
		c, err := choose(all, tt.wanted)
		if tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("%q: error = %v, want %s", tt.wanted, err, tt.err)
			}
			continue
		}
		if err != nil || c.ID != tt.id {
			t.Errorf("%q: container = %v, %v, want %s", tt.wanted, c, err, tt.id)
		}
	}
}

func TestListOfContainersInAMessageIsBounded(t *testing.T) {
	all := make([]Container, maxListed+3)
	for i := range all {
		all[i] = Container{ID: strings.Repeat("0", 61) + strconv.Itoa(100+i)}
	}
	if _, err := choose(all, "none"); !errors.Is(err, ErrNone) || !strings.HasSuffix(err.Error(), ", and 3 more") || !strings.Contains(err.Error(), "no names can be read here") {
		t.Errorf("error = %v, want one that ends in 3 more", err)
	}
	if _, err := choose(nil, "none"); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "and no other") {
		t.Errorf("error = %v, want that there is no other", err)
	}
}

// host makes the files of runtimes, named by their paths, and returns their root.
func host(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// names returns the names that the files below root give a container.
func names(root, id string) []string {
	c := &Container{ID: id}
	sources{root}.name(map[string]*Container{id: c})
	return append([]string{c.Runtime}, c.names...)
}

func TestNamesAreReadFromFilesOfRuntimes(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only files of root are read")
	}
	const task, storage = "/run/containerd/io.containerd.runtime.v2.task/", podmanStorage + "/overlay-containers/containers.json"
	for name, tt := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"docker": {
			map[string]string{dockerContainers + "/" + first + "/config.v2.json": `{"State":{"Pid":1},"Name":"/web","Config":{}}`},
			[]string{"docker", "web"},
		},
		"docker below a kubelet": {
			map[string]string{dockerContainers + "/" + first + "/config.v2.json": `{"Name":"/k8s_app_web-0_shop_11f3_2"}`},
			[]string{"docker", "shop/web-0/app", "web-0/app", "app", "k8s_app_web-0_shop_11f3_2"},
		},
		"podman": {
			map[string]string{storage: `[{"id":"` + second + `","names":["other"]},{"id":"` + first + `","names":["web"],"metadata":"{}"}]`},
			[]string{"podman", "web"},
		},
		"containerd of a kubelet": {
			map[string]string{task + "k8s.io/" + first + "/config.json": `{"annotations":{"io.kubernetes.cri.container-type":"container","io.kubernetes.cri.container-name":"app","io.kubernetes.cri.sandbox-name":"web-0","io.kubernetes.cri.sandbox-namespace":"shop"}}`},
			[]string{"containerd", "shop/web-0/app", "web-0/app", "app"},
		},
		"a pod's sandbox": {
			map[string]string{task + "k8s.io/" + first + "/config.json": `{"annotations":{"io.kubernetes.cri.container-type":"sandbox","io.kubernetes.cri.sandbox-name":"web-0","io.kubernetes.cri.sandbox-namespace":"shop"}}`},
			[]string{"containerd", "shop/web-0/POD", "web-0/POD"},
		},
		"the kubelet's own labels": {
			map[string]string{task + "k8s.io/" + first + "/config.json": `{"annotations":{"io.kubernetes.container.name":"app","io.kubernetes.pod.name":"web-0","io.kubernetes.pod.namespace":"shop"}}`},
			[]string{"containerd", "shop/web-0/app", "web-0/app", "app"},
		},
		"nerdctl": {
			map[string]string{task + "default/" + first + "/config.json": `{"annotations":{"nerdctl/name":"web"}}`},
			[]string{"containerd", "web"},
		},
		"no name":          {map[string]string{task + "default/" + first + "/config.json": `{}`}, []string{"containerd"}},
		"not JSON":         {map[string]string{dockerContainers + "/" + first + "/config.v2.json": `{"Name":`, storage: `{}`}, []string{""}},
		"of another shape": {map[string]string{dockerContainers + "/" + first + "/config.v2.json": `{"Name":{}}`, storage: `[null,{"names":null,"id":"` + first + `"}]`}, []string{""}},
		"deep":             {map[string]string{dockerContainers + "/" + first + "/config.v2.json": strings.Repeat("[", 1<<20)}, []string{""}},
		"long":             {map[string]string{dockerContainers + "/" + first + "/config.v2.json": `{"Name":"/web"}` + strings.Repeat(" ", maxConfig)}, []string{""}},
		"long name":        {map[string]string{dockerContainers + "/" + first + "/config.v2.json": `{"Name":"/` + strings.Repeat("x", maxName+1) + `"}`}, []string{"docker"}},
		"nothing":          {nil, []string{""}},
	} {
		if diff := cmp.Diff(tt.want, names(host(t, tt.files), first)); diff != "" {
			t.Errorf("%s: runtime and names (-want +got):\n%s", name, diff)
		}
	}
}

// TestOnlyFilesOfRootNameContainers has files that another user may have made.
func TestOnlyFilesOfRootNameContainers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("files are given to another user")
	}
	const file = dockerContainers + "/" + first + "/config.v2.json"
	for name, change := range map[string]func(path string) error{
		"another user's":            func(path string) error { return os.Chown(path, 65534, 0) },
		"one that others may write": func(path string) error { return os.Chmod(path, 0o646) },
		"a folder": func(path string) error {
			return errors.Join(os.Remove(path), os.Mkdir(path, 0o755))
		},
		"a link that leads out": func(path string) error {
			outside := filepath.Join(t.TempDir(), "outside")
			return errors.Join(os.Rename(path, outside), os.Symlink(outside, path))
		},
		"a pipe": func(path string) error {
			return errors.Join(os.Remove(path), exec.Command("mkfifo", path).Run())
		},
	} {
		root := host(t, map[string]string{file: `{"Name":"/web"}`})
		if got := names(root, first); len(got) != 2 {
			t.Fatalf("names = %q, want one", got)
		}
		if err := change(filepath.Join(root, file)); err != nil {
			t.Fatal(err)
		}
		if got := names(root, first); len(got) != 1 {
			t.Errorf("%s: names = %q, want none", name, got)
		}
	}
}

// TestContainersAreFoundInControlGroups has processes in control groups of both
// versions, as far as they are mounted.
func TestContainersAreFoundInControlGroups(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("no control groups can be made")
	}
	mounts, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, mount := range mounts {
		found[filepath.Dir(mount)] = !strings.Contains(mount, "/cpuset/") // whose groups need settings first
	}
	if mount, err := process.CgroupMount(); err == nil {
		found[mount] = true
	}
	for mount, usable := range found {
		if usable {
			t.Run(filepath.Base(mount), func(t *testing.T) { testGroupsIn(t, mount) })
		}
	}
}

// testGroupsIn has a container of Docker and one of containerd in the groups of mount.
func testGroupsIn(t *testing.T, mount string) {
	id := third[:40] + strings.Repeat("0", 16) + strconv.Itoa(1e7+os.Getpid())
	group := "test-" + strconv.Itoa(os.Getpid())
	root := host(t, map[string]string{
		dockerContainers + "/" + id + "/config.v2.json":                      `{"Name":"/web"}`,
		"/run/containerd/io.containerd.runtime.v2.task/test/job/config.json": `{"linux":{"cgroupsPath":"/` + group + `/job"}}`,
	})
	web := inGroup(t, filepath.Join(mount, "docker", id))
	job := inGroup(t, filepath.Join(mount, group, "job"))
	all, err := list(sources{root})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		wanted       string
		want, others int
	}{{"web", web, job}, {id, web, job}, {"job", job, web}, {"test/job", job, web}} {
		c, err := choose(all, tt.wanted)
		if err != nil {
			t.Fatal(err)
		}
		if !c.Has(tt.want) || c.Has(tt.others) || c.Has(os.Getpid()) {
			t.Errorf("%v has its process: %v, another container's: %v, this one: %v", c, c.Has(tt.want), c.Has(tt.others), c.Has(os.Getpid()))
		}
	}
}

// inGroup starts a process in a new control group.
func inGroup(t *testing.T, folder string) int {
	t.Helper()
	above := filepath.Dir(folder)
	if err := os.Mkdir(above, 0o755); err == nil {
		t.Cleanup(func() { _ = os.Remove(above) })
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Skip("no control group can be made: ", err)
	}
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it runs until then
		_ = cmd.Wait()
		if err := os.Remove(folder); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), strconv.AppendInt(nil, int64(cmd.Process.Pid), 10), 0); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}
