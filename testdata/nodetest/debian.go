package nodetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// debianPackages are Debian 12's nodejs and what of its dependencies not every
// Debian has. Its parts are libraries, and all are stripped.
var debianPackages = []string{
	"nodejs", "libnode108", "libuv1", "libbrotli1", "libc-ares2", "libicu72", "libnghttp2-14", "libssl3",
	"node-acorn", "node-busboy", "node-cjs-module-lexer", "node-minimatch", "node-undici", "node-xtend",
}

// DebianAddons is the version among Versions whose add-ons run in Debian's Node.js.
const DebianAddons = "18.20.8"

// debianNode runs what is unpacked in the folder above it, in its own mount
// namespace: Debian's Node.js reads parts of itself from /usr/share.
const debianNode = `#!/bin/sh
root=$(dirname "$(dirname "$(readlink -f "$0")")")
exec unshare --mount sh -c '
	root=$1
	shift
	mount --bind "$root/usr/share" /usr/share
	LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu exec "$root/usr/bin/node" "$@"
' sh "$root" "$@"
`

// DebianNode returns the path of a script that becomes Debian 12's Node.js 18. It
// is fetched by apt once, into the cache that Node uses, and not installed. The
// test is skipped, or fails, as MustRun says, where that cannot be done.
func DebianNode(t testing.TB) string {
	t.Helper()
	Root(t)
	ctx, cancel := context.WithTimeout(t.Context(), fetchLimit)
	defer cancel()
	dir, err := cached("debian-12-nodejs", func(temp string) error { return unpackDebian(ctx, temp) })
	if err != nil {
		MustRun(t, fmt.Sprintf("fetch Debian 12's nodejs: %v", err))
	}
	return filepath.Join(dir, "bin", "node")
}

// unpackDebian fills dir.
func unpackDebian(ctx context.Context, dir string) error {
	if err := download(ctx, dir, debianPackages); err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return err
	}
	for _, archive := range archives {
		if err := run(exec.CommandContext(ctx, "dpkg", "-x", archive, dir)); err != nil {
			return err
		}
		if err := os.Remove(archive); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "bin", "node"), []byte(debianNode), 0o755)
}

// download puts packages into dir, if need be after asking what there is.
func download(ctx context.Context, dir string, packages []string) error {
	get := func() error {
		exact := slices.Clone(packages)
		for i, name := range exact {
			version, err := debianVersion(ctx, name)
			if err != nil {
				return err
			}
			exact[i] = name + "=" + version
		}
		cmd := exec.CommandContext(ctx, "apt-get", append([]string{"download", "-q"}, exact...)...)
		cmd.Dir = dir
		return run(cmd)
	}
	err := get()
	if err == nil {
		return nil
	}
	if updateErr := run(exec.CommandContext(ctx, "apt-get", "update", "-q")); updateErr != nil {
		return errors.Join(err, updateErr)
	}
	return get()
}

// debianVersion returns the newest version of a package that can be fetched: of
// nodejs that is Debian's own, whatever other archives the machine knows of.
func debianVersion(ctx context.Context, name string) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-cache", "madison", name).Output()
	if err != nil {
		return "", fmt.Errorf("ask apt for %s: %w", name, err)
	}
	for line := range strings.Lines(string(out)) { // name | version | archive, newest first
		cells := strings.Split(line, "|")
		if len(cells) != 3 || !strings.HasSuffix(strings.TrimSpace(cells[2]), "Packages") {
			continue
		}
		version := strings.TrimSpace(cells[1])
		if name != "nodejs" || strings.HasPrefix(version, "18.") && strings.Contains(version, "+dfsg") {
			return version, nil
		}
	}
	return "", fmt.Errorf("apt knows no %s of Debian 12", name)
}
