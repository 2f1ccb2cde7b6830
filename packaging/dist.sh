#!/bin/bash
# Packs what "make build" built as an archive and a Debian package, with their
# checksums, into a folder: dist.sh FOLDER VERSION. What it writes depends on the
# commit alone: times are that of the commit, or SOURCE_DATE_EPOCH if it is set.
# XZ_LEVEL, from 0 to 9 (6 if it is not set), trades the package's size for time.
set -euo pipefail
umask 022
out=$1 version=$2
cd "$(dirname "$0")/.."
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y go.mod)}
export LC_ALL=C TZ=UTC
mkdir -p "$out"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

name=ustack-$version-linux-amd64
make -s install DESTDIR="$stage/$name" PREFIX=
cp README.md LICENSE "$stage/$name"
find "$stage" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
tar -C "$stage" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
	--mode=u=rwX,go=rX --format=gnu -cf - "$name" | gzip -n9 >"$out/$name.tar.gz"

root=$stage/deb
make -s install DESTDIR="$root" PREFIX=/usr
mv "$root/usr/share/doc/ustack/LICENSE" "$root/usr/share/doc/ustack/copyright"
gzip -n9 "$root"/usr/share/man/man1/*.1
mkdir "$root/DEBIAN"
# A version of Debian's sorts 1.2.3-4-gabc behind 1.2.3, and has no hyphens of its own.
cat >"$root/DEBIAN/control" <<END
Package: ustack
Version: ${version//-/+}
Architecture: amd64
Maintainer: The ustack authors <ustack@localhost>
Installed-Size: $(du -sk --apparent-size "$root/usr" | cut -f1)
Section: devel
Priority: optional
Description: DTrace's tools for Node.js
 jsprof profiles running Node.js processes, addonlat measures the asynchronous
 work of add-ons, nodesnoop shows HTTP requests, stopon acts when something goes
 wrong, logsnoop shows what is logged, and jscore debugs cores.
END
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
chmod 644 "$root"/DEBIAN/*
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
# The number of threads of xz changes its output.
dpkg-deb --root-owner-group -Zxz -z"${XZ_LEVEL:-6}" --threads-max=1 -b "$root" "$out/ustack_${version//-/+}_amd64.deb" >/dev/null

cd "$out"
sha256sum "$name.tar.gz" "ustack_${version//-/+}_amd64.deb" >SHA256SUMS
cat SHA256SUMS
