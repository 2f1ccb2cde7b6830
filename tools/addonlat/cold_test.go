package addonlat

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// coldVersions are the versions on which jobs of cold callers are tested: from 22 on,
// V8 maps its builtins a second time.
func coldVersions() []string {
	if os.Getenv("USTACK_MATRIX") == "1" {
		return nodetest.Versions
	}
	return []string{"22.23.3", "26.10.0"}
}

// cold measures cold.js from its start.
func cold(t *testing.T, version string, by By) *Report {
	t.Helper()
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	r, err := Run(t.Context(), Options{
		Selection: trace.Selection{Command: []string{nodetest.Node(t, version), nodetest.Program("cold.js")}, Stdout: devNull(t)}, By: by, Builtin: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestColdCallersJobsAreOfTheRightKind(t *testing.T) {
	for _, version := range coldVersions() {
		t.Run(version, func(t *testing.T) {
			got := counts(cold(t, version, Function))
			for key, want := range map[string]uint64{
				"crypto.PBKDF2": 1, "crypto.Scrypt": 1, "crypto.KeyPairGen": 1, "crypto.HKDF": 1, "random": 1, "fs.stat": 1,
			} {
				if got[key] != want {
					t.Errorf("jobs of %s = %d, want %d", key, got[key], want)
				}
			}
			for key := range got {
				if strings.Contains(key, "Builtins_") {
					t.Errorf("jobs of %s, which is no submitter", key)
				}
			}
		})
	}
}

// TestStacksThroughNewCodeMayBeAddons: if the process ended before its mappings were
// read again, a job is not mistaken for node's own.
func TestStacksThroughNewCodeMayBeAddons(t *testing.T) {
	queue := symbolize.Frame{Name: "uv_queue_work", Module: "/bin/node"}
	lost := symbolize.Frame{Name: symbolize.Unknown, Offset: 0x7f0000001000}
	for name, test := range map[string]struct {
		frames []symbolize.Frame
		want   bool
	}{
		"an add-on":     {[]symbolize.Frame{queue, {Name: "begin", Module: "/srv/a.node"}}, true},
		"not described": {[]symbolize.Frame{queue, lost}, true},
		"with its name": {[]symbolize.Frame{queue, lost, {Name: "resource"}}, true},
		"node's own":    {[]symbolize.Frame{queue, lost, {Name: "node::crypto::RandomBytesJob"}}, false},
		"V8's builtins": {[]symbolize.Frame{queue, {Name: "Builtins_CallApiCallback", Module: "/bin/node"}}, false},
		"no class":      {[]symbolize.Frame{queue, {Name: "Builtins_CallApiCallback", Module: "/bin/node"}, {Name: symbolize.Unknown}}, false},
		"nothing":       {nil, false},
	} {
		if got := mayBeAddons(test.frames); got != test.want {
			t.Errorf("%s: an add-on's = %v, want %v", name, got, test.want)
		}
	}
	noClass := symbolize.Frame{Name: symbolize.Unknown}
	if got := givenName([]symbolize.Frame{queue, lost, {Name: "resource"}, noClass}); got != "resource" {
		t.Errorf("name = %q, want resource", got)
	}
}

func TestCallersAreTheProgramsOwn(t *testing.T) {
	js := func(name, file string) symbolize.Frame {
		return symbolize.Frame{Kind: symbolize.JS, Name: name, File: file}
	}
	native := symbolize.Frame{Name: "uv_queue_work", Module: "node"}
	for name, test := range map[string]struct {
		frames []symbolize.Frame
		want   string
	}{
		"own":            {[]symbolize.Frame{js("hkdf", "node:internal/crypto/hkdf"), js("nine", "/app/x.js"), js("ten", "/app/y.js")}, "nine /app/x.js"},
		"node's only":    {[]symbolize.Frame{js("processChunk", "node:zlib"), js("emit", "node:events")}, "processChunk node:zlib"},
		"a module's URL": {[]symbolize.Frame{js("stat", "node:fs"), js("f", "file:///app/x.mjs")}, "f file:///app/x.mjs"},
		"none":           {[]symbolize.Frame{native}, noJavaScript},
	} {
		if got := javascript(caller(test.frames)); got != test.want {
			t.Errorf("%s: key = %q, want %q", name, got, test.want)
		}
	}
}

// TestColdCallersAreTheProgramsOwn: callers are named even while user space does not
// yet know where V8 has mapped its builtins.
func TestColdCallersAreTheProgramsOwn(t *testing.T) {
	for _, version := range coldVersions() {
		t.Run(version, func(t *testing.T) {
			got := make(map[string]uint64)
			for key, count := range counts(cold(t, version, JS)) {
				name, _, _ := strings.Cut(key, " ")
				got[name] += count
			}
			want := map[string]uint64{
				"coldDerive": 1, "coldScrypt": 1, "coldRandom": 1, "coldKeys": 1, "coldExpand": 1, "coldDeflate": 1, "coldStat": 1,
				"processChunk": 1, // zlib's second write comes after the caller has returned
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("jobs by function (-want +got):\n%s", diff)
			}
		})
	}
}
