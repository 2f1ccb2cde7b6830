package nodetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Debians are the releases of Debian whose own Node.js can be fetched, oldest
// first. Its parts are libraries, all stripped, and not all keep frame pointers.
var Debians = []string{"bookworm", "trixie", "sid"}

// DebianAddons is the version among Versions whose add-ons run in the Node.js of
// Debian 12.
const DebianAddons = "18.20.8"

// debianNode runs what is unpacked in the folder above it, with the libraries
// and the loader that are there, in its own mount namespace: Debian's Node.js
// reads parts of itself from /usr/share.
const debianNode = `#!/bin/sh
root=$(dirname "$(dirname "$(readlink -f "$0")")")
exec unshare --mount sh -c '
	root=$1
	shift
	libraries=$root/usr/lib/x86_64-linux-gnu
	mount --bind "$root/usr/share" /usr/share
	mount --bind "$libraries/ld-linux-x86-64.so.2" /lib64/ld-linux-x86-64.so.2
	LD_LIBRARY_PATH=$libraries exec "$root/usr/bin/node" "$@"
' sh "$root" "$@"
`

// DebianNode returns the path of a script that becomes Debian 12's Node.js 18.
func DebianNode(t testing.TB) string {
	t.Helper()
	return Debian(t, Debians[0])
}

// Debian returns the path of a script that becomes the Node.js of a release of
// Debian. It is fetched by apt once, into the cache that Node uses, and not
// installed. The test is skipped, or fails, as MustRun says, where that cannot
// be done.
func Debian(t testing.TB, release string) string {
	t.Helper()
	Root(t)
	ctx, cancel := context.WithTimeout(t.Context(), fetchLimit)
	defer cancel()
	dir, err := cached("debian-"+release, func(temp string) error { return unpackDebian(ctx, temp, release) })
	if err != nil {
		MustRun(t, fmt.Sprintf("fetch nodejs of Debian %s: %v", release, err))
	}
	return filepath.Join(dir, "bin", "node")
}

// unpackDebian fills dir with nodejs and all that it depends on.
func unpackDebian(ctx context.Context, dir, release string) error {
	apt := filepath.Join(dir, "apt")
	if err := download(ctx, apt, release, "nodejs"); err != nil {
		return err
	}
	for _, name := range []string{"lib", "lib64"} { // packages may have files in both
		if err := os.MkdirAll(filepath.Join(dir, "usr", name), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join("usr", name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	archives, err := filepath.Glob(filepath.Join(apt, "archives", "*.deb"))
	if err != nil {
		return err
	}
	for _, archive := range archives {
		if err := run(exec.CommandContext(ctx, "dpkg", "-x", archive, dir)); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(apt); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "bin", "node"), []byte(debianNode), 0o755)
}

// Kernel returns the path of the boot image of the kernel for clouds that a release of
// Debian has. It is fetched by apt once, into the cache that Node uses.
func Kernel(t testing.TB, release string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fetchLimit)
	defer cancel()
	dir, err := cached("kernel-"+release, func(temp string) error { return unpackKernel(ctx, temp, release) })
	if err != nil {
		t.Fatalf("fetch the kernel of Debian %s: %v", release, err)
	}
	images, err := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil || len(images) != 1 {
		t.Fatalf("images in %s: %v, %v, want one", dir, images, err)
	}
	return images[0]
}

// unpackKernel puts the boot image of a release's kernel into dir/boot.
func unpackKernel(ctx context.Context, dir, release string) error {
	apt := filepath.Join(dir, "apt")
	if err := download(ctx, apt, release, "linux-image-cloud-amd64"); err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(apt, "archives", "linux-*.deb"))
	if err != nil {
		return err
	}
	unpacked := filepath.Join(dir, "unpacked")
	for _, archive := range archives {
		if err := run(exec.CommandContext(ctx, "dpkg", "-x", archive, unpacked)); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "boot"), 0o755); err != nil {
		return err
	}
	image, name, err := kernelImage(unpacked)
	if err != nil {
		return err
	}
	if err := os.Rename(image, filepath.Join(dir, "boot", name)); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(unpacked), os.RemoveAll(apt))
}

// kernelImage returns the path of the boot image among what is unpacked in dir, and its usual
// name. Since Linux 7, Debian's packages have it beside the modules.
func kernelImage(dir string) (path, name string, err error) {
	var images []string
	for _, pattern := range []string{"boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", "", err
		}
		images = append(images, found...)
	}
	if len(images) != 1 {
		return "", "", fmt.Errorf("images among the packages' files: %v, want one", images)
	}
	name = filepath.Base(images[0])
	if name == "vmlinuz" {
		name += "-" + filepath.Base(filepath.Dir(images[0]))
	}
	return images[0], name, nil
}

// aptConfig has apt work in a folder of its own, where no package is installed:
// then all that a package depends on is fetched. The clock of a test machine may
// be ahead of an archive's.
const aptConfig = `
Dir::Etc::sourcelist "%[1]s/sources.list";
Dir::Etc::sourceparts "-";
Dir::State "%[1]s";
Dir::State::status "/dev/null";
Dir::Cache "%[1]s";
APT::Sandbox::User "root";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
`

// download puts a package of a release, and those it depends on, into archives
// below dir.
func download(ctx context.Context, dir, release, name string) error {
	mirror, err := debianMirror(ctx)
	if err != nil {
		return err
	}
	for _, folder := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			return err
		}
	}
	source := fmt.Sprintf("deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n", mirror, release)
	if err := os.WriteFile(filepath.Join(dir, "sources.list"), []byte(source), 0o644); err != nil {
		return err
	}
	config := filepath.Join(dir, "apt.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, aptConfig, dir), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"update", "-q"},
		{"install", "-qy", "--no-install-recommends", "--download-only", name},
	} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "APT_CONFIG="+config)
		if err := run(cmd); err != nil {
			return err
		}
	}
	return nil
}

// debianMirror returns where this machine gets Debian from.
func debianMirror(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)",
		"Created-By: Packages", "Origin: Debian", "Label: Debian").Output()
	if err != nil {
		return "", fmt.Errorf("ask apt for Debian's archive: %w", err)
	}
	mirror, _, _ := strings.Cut(string(out), "\n")
	if mirror == "" {
		return "", fmt.Errorf("apt knows no archive of Debian (run apt-get update)")
	}
	return mirror, nil
}
