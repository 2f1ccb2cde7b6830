package labels

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// start starts a process that waits, with these variables in its environment, until the test
// ends or the function that it returns is called.
func start(t *testing.T, variables ...string) (pid int, end func()) {
	t.Helper()
	cmd := exec.Command("cat")
	cmd.Env = append([]string{"FIRST=1"}, variables...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Once it answers, its environment is there.
	if _, err := stdin.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	end = func() {
		stdin.Close()
		_ = cmd.Wait()
	}
	t.Cleanup(end)
	return cmd.Process.Pid, end
}

func reader(t *testing.T, o Options) *Reader {
	t.Helper()
	r, err := NewReader(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// values returns labels' values by name.
func values(all []Label) map[string]string {
	by := make(map[string]string)
	for _, l := range all {
		by[l.Name] = l.Value
	}
	return by
}

func sources(t *testing.T, text string) (all []Source) {
	t.Helper()
	for word := range strings.SplitSeq(text, ",") {
		s, err := ParseSource(word)
		if err != nil {
			t.Fatal(err)
		}
		if s.String() != word {
			t.Errorf("source %q is written %q", word, s)
		}
		all = append(all, s)
	}
	return all
}

func TestServiceIsFromTheFirstSourceThatHasOne(t *testing.T) {
	pid, _ := start(t, "OTEL_SERVICE_NAME=checkout", "OTHER=billing", "EMPTY=")
	for text, want := range map[string]string{
		"env:OTEL_SERVICE_NAME":    "checkout",
		"env:MISSING,env:OTHER":    "billing",
		"env:EMPTY,comm":           "cat",
		"env:OTEL_SERVICE,comm":    "cat",
		"container,name:fixed":     "fixed",
		"comm,env:OTHER":           "cat",
		"script,container,env:FIR": "",
	} {
		r := reader(t, Options{Service: sources(t, text)})
		r.Read(pid)
		if got := values(r.Of(pid))["service.name"]; got != want {
			t.Errorf("service by %s = %q, want %q", text, got, want)
		}
	}
}

func TestSourcesThatMakeNoSense(t *testing.T) {
	for _, text := range []string{"", "environment", "env", "env:", "env:A=B", "name:", "comm:x", "unit:"} {
		if s, err := ParseSource(text); err == nil {
			t.Errorf("ParseSource(%q) = %v, want an error", text, s)
		}
	}
}

// TestProcessesCannotBreakLabels has values that a hostile process chose.
func TestProcessesCannotBreakLabels(t *testing.T) {
	for _, value := range []string{
		"two\nlines", "\x1b[31mred", "\xff\xfe", strings.Repeat("é", 1<<10), "x" + strings.Repeat("日", 1<<10), strings.Repeat("\xff", 1<<10),
	} {
		pid, end := start(t, "OTEL_SERVICE_NAME="+value)
		r := reader(t, Options{})
		r.Read(pid)
		end()
		got := values(r.Of(pid))["service.name"]
		if got == "" || len(got) > maxValue || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\x1b") {
			t.Errorf("service %.20q… = %q", value, got)
		}
	}
}

// TestLabelsOutliveTheirProcess until they are forgotten.
func TestLabelsOutliveTheirProcess(t *testing.T) {
	fixed, err := Parse("deployment.environment=test")
	if err != nil {
		t.Fatal(err)
	}
	r := reader(t, Options{Host: "here", Fixed: []Label{fixed}})
	pid, end := start(t, "OTEL_SERVICE_NAME=checkout")
	common := map[string]string{"host.name": "here", "deployment.environment": "test"}
	if diff := cmp.Diff(common, values(r.Of(pid))); diff != "" {
		t.Errorf("before it was read (-want +got):\n%s", diff)
	}
	r.Read(pid)
	if got := r.Forget(); got != 1 {
		t.Errorf("running = %d, want 1", got)
	}
	end()
	of := values(r.Of(pid))
	for name, want := range map[string]string{
		"service.name": "checkout", "process.pid": strconv.Itoa(pid), "host.name": "here", "deployment.environment": "test",
	} {
		if of[name] != want {
			t.Errorf("%s = %q, want %q", name, of[name], want)
		}
	}
	if got := r.Forget(); got != 0 || r.Knows(pid) {
		t.Errorf("running = %d after its end, want 0", got)
	}
	r.Read(pid)
	if diff := cmp.Diff(common, values(r.Of(pid))); diff != "" {
		t.Errorf("of a process that has ended (-want +got):\n%s", diff)
	}
}

func TestFixedLabelsReplaceOthers(t *testing.T) {
	host, err := Parse("host.name=node-7")
	if err != nil {
		t.Fatal(err)
	}
	r := reader(t, Options{Host: "pod-of-ours", Fixed: []Label{host}})
	want := []Label{{"host.name", "host", "node-7"}}
	if diff := cmp.Diff(want, r.Of(os.Getpid())); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if l, err := Parse("deployment.environment-name=a=b"); err != nil || l != (Label{"deployment.environment-name", "deployment_environment_name", "a=b"}) {
		t.Errorf("label = %+v, %v", l, err)
	}
	for _, text := range []string{"", "a", "=b", "a=", "1=b", "a b=c", strings.Repeat("a", 65) + "=b"} {
		if l, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %+v, want an error", text, l)
		}
	}
}

func TestPodsAreFoundByTheirContainers(t *testing.T) {
	dir := t.TempDir()
	id, other := strings.Repeat("0123456789abcdef", 4), strings.Repeat("fedcba9876543210", 4)
	link := func(name string) {
		if err := os.Symlink("/var/log/pods/any", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("web-7d4b9c-x2x_shop_node-" + id + ".log")
	link("no-container.log")
	link("a_b_c-" + id[1:] + ".log")
	p := pods{dir: dir}
	if got, want := p.of(id), (pod{"web-7d4b9c-x2x", "shop", "node"}); got != want {
		t.Errorf("pod = %+v, want %+v", got, want)
	}
	link("db-0_data_init-db-" + other + ".log")
	if got := p.of(other); got != (pod{}) {
		t.Errorf("pod of a container that started since = %+v, want none: the directory was just read", got)
	}
	p.read = p.read.Add(-patience)
	if got, want := p.of(other), (pod{"db-0", "data", "init-db"}); got != want {
		t.Errorf("pod = %+v, want %+v", got, want)
	}
	none := pods{dir: filepath.Join(dir, "missing")}
	if got := none.of(id); got != (pod{}) {
		t.Errorf("pod without a directory = %+v, want none", got)
	}
}

func TestPathOfGroup(t *testing.T) {
	for text, want := range map[string]string{
		"0::/system.slice/app.service\n":                                     "/system.slice/app.service",
		"12:cpu,cpuacct:/docker/x\n1:name=systemd:/docker/y\n0::/init\n":     "/init",
		"12:cpu:/\n4:memory:/kubepods/pod1/x\n1:name=systemd:/other\n0::/\n": "/kubepods/pod1/x",
		"0::/a:b\n": "/a:b",
		"nonsense":  "",
		"":          "",
	} {
		if got := pathOf(text); got != want {
			t.Errorf("pathOf(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestUnits(t *testing.T) {
	for path, want := range map[string]string{
		"/system.slice/app.service":                                              "app",
		"/system.slice/app@2.service/worker":                                     "app@2",
		"/user.slice/user-1000.slice/user@1000.service/app.slice/mine.service/x": "mine",
		"/system.slice/outer.service/inner.service":                              "outer",
		"/user.slice/user-1000.slice/session-2.scope":                            "",
		"": "",
	} {
		if got := unit(path); got != want {
			t.Errorf("unit(%q) = %q, want %q", path, got, want)
		}
	}
}

// TestEnvironmentsAreReadWithinBounds has variables at any place and of any length.
func TestEnvironmentsAreReadWithinBounds(t *testing.T) {
	long := strings.Repeat("y", 1<<16)
	for _, test := range []struct{ environment, want string }{
		{"A=1\x00", "1"},
		{"B=2\x00A=1\x00", "1"},
		{"B=" + long + "\x00A=1\x00", "1"},
		{"A=1", "1"},
		{"A=\x00A=2\x00", ""},
		{"AA=1\x00A", ""},
		{"B=" + long + "A=1\x00", ""},
		{"", ""},
	} {
		if got := find(strings.NewReader(test.environment), "A"); got != test.want {
			t.Errorf("A in %.20q… = %q, want %q", test.environment, got, test.want)
		}
	}
	if got := find(strings.NewReader("A="+long+"\x00"), "A"); got == "" || len(got) > maxValue+1 || strings.Trim(got, "y") != "" {
		t.Errorf("a long value = %d bytes, want its beginning", len(got))
	}
}
