#!/bin/bash
# Tries what "make dist" and "make install" make, as root: that two runs give the
# same bytes, and that all is there, runs in an empty root, and goes again.
set -euo pipefail
cd "$(dirname "$0")/.."
tools="addonlat jscore jsprof logsnoop nodesnoop stopon"
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT

fail() { echo "packaging/test.sh: $*" >&2; exit 1; }

# installed ROOT PREFIX: checks that all files of an installation are there.
installed() {
	local root=$1 prefix=$2 tool
	for tool in $tools; do
		for file in bin/$tool share/man/man1/$tool.1 share/bash-completion/completions/$tool \
			share/zsh/site-functions/_$tool share/fish/vendor_completions.d/$tool.fish; do
			[ -s "$root$prefix/$file" ] || [ -s "$root$prefix/$file.gz" ] || fail "no $file in $root$prefix"
		done
	done
	for file in lib/systemd/system/jsprof.service share/doc/ustack/examples/jsprof-daemonset.yaml; do
		[ -s "$root$prefix/$file" ] || fail "no $file in $root$prefix"
	done
}

# runs ROOT PREFIX: runs the tools with nothing around them but /proc and /sys.
runs() {
	local root=$1 prefix=$2 tool
	mkdir -p "$root/proc" "$root/sys"
	for tool in $tools; do
		chroot "$root" "$prefix/bin/$tool" --version | grep -qxF "$tool $version" || fail "$tool is not version $version"
		unshare --mount sh -c "mount -t proc proc '$root/proc' && mount --rbind /sys '$root/sys' && exec chroot '$root' '$prefix/bin/$tool' --check" \
			>"$temp/check" || fail "$tool does not work in $root: $(cat "$temp/check")"
	done
	rmdir "$root/proc" "$root/sys"
}

export XZ_LEVEL=1
make -s dist DIST="$temp/one"
version=$(packaging/version.sh)
(umask 077 && cd / && TZ=Asia/Tokyo make -s -C "$OLDPWD" dist DIST="$temp/two")
cmp "$temp/one/SHA256SUMS" "$temp/two/SHA256SUMS" || fail "two runs differ"
(cd "$temp/one" && sha256sum --quiet -c SHA256SUMS)

echo "the Debian package"
root=$temp/debian
mkdir -p "$root/var/lib/dpkg/"{info,updates,triggers}
touch "$root/var/lib/dpkg/"{status,available}
dpkg --root="$root" --log=/dev/null -i "$temp"/one/*.deb >/dev/null
installed "$root" /usr
runs "$root" /usr
if command -v systemd-analyze >/dev/null; then # it knows which keys a unit may have
	systemd-analyze --root="$root" --man=no --recursive-errors=no verify jsprof.service || fail "the unit is not right"
fi
(cd "$root" && md5sum --quiet -c var/lib/dpkg/info/ustack.md5sums)
dpkg --root="$root" --log=/dev/null --purge ustack >/dev/null 2>&1
[ -z "$(find "$root" -path "$root/var" -prune -o -type f -print)" ] || fail "the package leaves files"

echo "the archive"
mkdir "$temp/archive"
tar -C "$temp/archive" --strip-components=1 -xzf "$temp"/one/*.tar.gz
installed "$temp/archive" ""
runs "$temp/archive" ""

echo "make install and uninstall"
make -s install DESTDIR="$temp/install"
installed "$temp/install" /usr/local
runs "$temp/install" /usr/local
for shell in bash zsh fish; do
	command -v $shell >/dev/null || continue
	for file in "$temp/install/usr/local/share/$shell"*/*/*jsprof*; do $shell -n "$file" || fail "$file is no script for $shell"; done
done
make -s uninstall DESTDIR="$temp/install"
[ -z "$(find "$temp/install" -type f)" ] || fail "uninstall leaves $(find "$temp/install" -type f)"
