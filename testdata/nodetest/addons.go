package nodetest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Addons are the sources of testdata/addons. Each says there which functions it
// exports to JavaScript, and which of its own kick the work off.
var Addons = []string{"rawuv.cc", "napi.c", "napi.cc"}

// Flags for Addon. The add-ons that node-gyp builds have frame pointers; what a
// plain compiler optimises has none.
const (
	FramePointers   = "-fno-omit-frame-pointer"
	NoFramePointers = "-fomit-frame-pointer"
)

const (
	compileLimit  = 5 * time.Minute
	bcryptPackage = "bcrypt@6.0.0" // with its add-on for Linux inside
	sharpPackage  = "sharp@0.34.5" // its add-on and libvips are packages of their own
)

// Addon returns the path of a source of testdata/addons, compiled for node with
// its own headers and with flags besides the usual ones. It is compiled once, into
// the cache that Node uses; "napi.c" becomes "napi_c.node" there.
func Addon(t testing.TB, node, source string, flags ...string) string {
	t.Helper()
	return AddonFor(t, runtime.GOARCH, node, source, flags...)
}

// AddonFor is like Addon for a node of another architecture, by go's name.
func AddonFor(t testing.TB, goarch, node, source string, flags ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), compileLimit)
	defer cancel()
	path, err := compile(ctx, goarch, filepath.Join(filepath.Dir(node), "..", "include", "node"), source, flags)
	if err != nil {
		t.Fatalf("compile %s for %s: %v", source, node, err)
	}
	return path
}

// Bcrypt returns the folder of npm's bcrypt, a real add-on: Node-API in C++,
// prebuilt. It is fetched once, into the cache that Node uses.
func Bcrypt(t testing.TB) string { return addonPackage(t, bcryptPackage) }

// Sharp returns the folder of npm's sharp, a prebuilt add-on with a library of 17 MB. It
// needs Node.js 18.17 or later. It is fetched once, into the cache that Node uses.
func Sharp(t testing.TB) string { return addonPackage(t, sharpPackage) }

// addonPackage returns the folder of a package of npm, named with its version.
func addonPackage(t testing.TB, spec string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fetchLimit)
	defer cancel()
	dir, err := cached(strings.ReplaceAll(spec, "@", "-"), func(temp string) error { return npmInstall(ctx, temp, spec) })
	if err != nil {
		t.Fatalf("install %s: %v (is npm's registry reachable?)", spec, err)
	}
	name, _, _ := strings.Cut(spec, "@")
	return filepath.Join(dir, "node_modules", name)
}

func compile(ctx context.Context, goarch, headers, source string, flags []string) (string, error) {
	major, err := headersMajor(headers)
	if err != nil {
		return "", err
	}
	compiler, standard := "g++", "-std=gnu++17"
	if major >= 23 {
		standard = "-std=gnu++20"
	}
	if filepath.Ext(source) == ".c" {
		compiler, standard = "gcc", "-std=gnu11"
	}
	args := []string{"-O2", "-Wall", "-shared", "-fPIC", standard, "-isystem", headers}
	args = append(args, flags...)
	sources := addonSources()
	key, err := digest(sources, append(args, compiler, source))
	if err != nil {
		return "", err
	}
	object := strings.ReplaceAll(source, ".", "_") + ".node"
	dir, err := cached(fmt.Sprintf("addon-%d-%s", major, key), func(temp string) error {
		args = append(args, "-o", filepath.Join(temp, object), filepath.Join(sources, source))
		return run(exec.CommandContext(ctx, tool(compiler, goarch), args...))
	})
	return filepath.Join(dir, object), err
}

func addonSources() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "addons")
}

var majorLine = regexp.MustCompile(`(?m)^#define NODE_MAJOR_VERSION (\d+)$`)

// headersMajor returns the first number of the version that node's headers are of.
func headersMajor(headers string) (int, error) {
	text, err := os.ReadFile(filepath.Join(headers, "node_version.h"))
	if err != nil {
		return 0, err
	}
	line := majorLine.FindSubmatch(text)
	if line == nil {
		return 0, fmt.Errorf("find NODE_MAJOR_VERSION in %s", headers)
	}
	return strconv.Atoi(string(line[1]))
}

// digest returns a short name for the files of a folder together with words.
func digest(dir string, words []string) (string, error) {
	hash := sha256.New()
	fmt.Fprintf(hash, "%q", words)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s %d %s", entry.Name(), len(text), text)
	}
	return fmt.Sprintf("%x", hash.Sum(nil)[:8]), nil
}
