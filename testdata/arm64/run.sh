#!/bin/bash
# Runs tests on arm64: on the kernel of Debian 12's clouds, in virtual machines that qemu
# emulates, with npm's builds of Node.js.
#
# A machine's clock counts its instructions, 1,000 in a microsecond, and does not wait while it
# is idle: CPU time is the same however slow or busy this machine is, and sleeping takes none.
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

# Packages, and which of their tests. Of Node.js, $major stands for the releases, and $version
# for what their numbers begin with. Machines, which run at the same time: a CPU, and which
# of so many parts of the tests it gets.
short_limit=3600 # seconds, for a machine that hangs
short_majors=22
short_machines=("$signing 0 2" "$signing 1 2")
short=(
	'tools/jsprof ^TestStackEqualsErrorStack$/^node$major$/^(interpreted|turbofan)$'
	'tools/jsprof ^TestSharesAreTrue$/^node$major$/^plain$'
	'tools/jsprof ^TestCallsAreCountedExactly$/^node$major$'
	'tools/stopon ^Test(StackIsTheProgramsOwn|SeedCase)$/^node$major$'
	'tools/addonlat ^TestCountsTimesAndBucketsAreExact$/^node$major$/^no-omit'
	'tools/jscore ^TestCoresCrossArchitectures$'
	'symbolize/v8/stack ^TestStackEqualsErrorStack$/^node$major$/^turbofan$'
	'tools/jscore ^TestHeap$/^$version'
	'tools/jscore ^TestVerdictsNameLeaks$/^$version'
)

long_limit=21600
long_majors='(16|18|20|22|24|26)' # npm has no 25 for arm64
long_machines=("$signing 0 1" "$other 0 1")
long=(
	'tools/stopon ^Test(StackIsTheProgramsOwn|SeedCase)$/^node$major$'
	'symbolize/v8/stack ^TestStackEqualsErrorStack$/^node$major$'
	'symbolize/v8 ^TestFunctionsThatCxxImplementsAreKnownByTheirExitFrames$/^$version'
	'tools/jscore ^TestCoresCrossArchitectures$'
	'tools/jscore ^TestHeap$/^$version'
	'tools/addonlat ^TestCountsTimesAndBucketsAreExact$/^node$major$'
	'tools/addonlat ^TestStrippedNodeShowsAll$/^node$major$'
	'tools/jsprof ^TestRegularExpressionsHaveTheirSource$'
	'symbolize/v8/stack ^TestEndlessRegularExpressionIsSeen$'
	'tools/jsprof ^TestCallsAreCountedExactly$/^node$major$'
	'tools/stopon ^TestStrippedBuildsShowTheWholeStack$/^stripped$major$'
	'tools/jsprof ^TestStackEqualsErrorStack$/^node$major$'
	'tools/jsprof ^TestSharesAreTrue$/^node$major$/^plain$'
	'tools/jsprof ^TestEventsAreThoseOfTheKernel$/^node$major'
	'tools/jsprof ^TestStrippedBuildsNames$/^stripped$major$/^interpreted$'
	'tools/stopon ^TestAbortLeavesTheKernelsCore$/^node$major$'
	'tools/stopon ^TestTriggersFireOnWhatTheyName$/^node$major$/^(path|return)$'
	'tools/addonlat ^TestUringOperationsAreCountedApart$/^(node$major|stripped)$'
	'tools/core ^TestCoreIsTheProcess$/^$version'
	'symbolize/v8/heap ^TestHeap$/^$version'
	'symbolize/v8/heap ^TestUnusedVariablesDoNotKeepObjectsAlive$'
	'symbolize/malloc ^TestChunksAreThoseThatMallocKnows$'
)

# The architecture of this machine, whose cores are read there, and those of which release.
host=$(go env GOARCH)
cores_version=22.23.3

check_tools() {
	local tool
	for tool in go npm cpio qemu-system-aarch64 aarch64-linux-gnu-g++; do
		command -v "$tool" >/dev/null || {
			echo "$tool is not there (apt-get install qemu-system-arm cpio g++-aarch64-linux-gnu)" >&2
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

# go_test PACKAGE PATTERN runs tests on this machine.
go_test() { go test -count=1 -timeout 30m -run "$2" "./$1"; }

# add FILE... puts files into the root folder: tests look for them where they are here.
add() {
	local file
	for file; do
		mkdir -p "$root$(dirname "$file")"
		ln "$file" "$root$file" 2>/dev/null || cp "$file" "$root$file"
	done
}

# is_chosen PACKAGE reports whether tests of it run.
is_chosen() { printf '%s\n' "${tests[@]}" | grep -q "^$1 "; }

# make_root fills the root folder of the machines, all but the list of tests.
make_root() {
	local package
	mkdir -p "$root"/{proc,sys,dev,tmp,etc,usr}
	cp -a "$debian"/{bin,lib} "$root/"
	cp -a "$debian"/usr/lib "$root/usr/"
	echo '127.0.0.1 localhost' >"$root/etc/hosts"
	USTACK_ARM64="^$majors\\." USTACK_FILES=$work/files go_test testdata/nodetest '^TestARM64IsPrepared$'
	mapfile -t files <"$work/files"
	add "${files[@]}"
	if is_chosen tools/jscore; then
		USTACK_CORES_TO=$work/$host go_test tools/jscore '^TestCoresCrossArchitectures$'
		add "$work/$host"/* "$(ls -d "$cache/node-$cores_version"/node_modules/*/bin/node)"
	fi
	mkdir -p "$root$PWD"
	cp -r testdata "$root$PWD/"
	cp testdata/arm64/init "$root/init"
	for package in $(printf '%s\n' "${tests[@]}" | cut -d ' ' -f 1 | sort -u); do
		mkdir -p "$root$PWD/$package"
		[[ ! -e $package/testdata ]] || cp -r "$package/testdata" "$root$PWD/$package/"
		GOARCH=arm64 CGO_ENABLED=0 go test -c -ldflags '-s -w' -o "$root$PWD/$package/run.test" "./$package"
	done
	printf 'export USTACK_CACHE=%q USTACK_CORES_FROM=%q USTACK_CORES_TO=/tmp/cores\n' "$cache" "$work/$host" >"$root/settings"
}

# list_tests PART PARTS prints what init reads: each so manieth test.
list_tests() {
	local i package pattern
	for ((i = $1; i < ${#tests[@]}; i += $2)); do
		read -r package pattern <<<"${tests[i]}"
		pattern=${pattern//\$major/$majors}
		printf 'run %d %q %q\n' "$i" "$PWD/$package" "${pattern//\$version/$majors\\.}"
	done
}

# run_machine NAME CPU PART PARTS runs tests in a machine, and fails if they do. What it prints
# goes to $work/NAME.
run_machine() {
	local dir=$work/machine-$1 start=$SECONDS
	mkdir "$dir"
	list_tests "$3" "$4" >"$dir/tests"
	# The kernel unpacks one archive after another.
	(cd "$dir" && echo tests | cpio --quiet -o -H newc) | cat "$work/initrd" - >"$dir/initrd"
	timeout "$limit" qemu-system-aarch64 -M virt -cpu "$2" -accel tcg -icount shift=0,sleep=off -smp 1 -m 5120 \
		-nodefaults -display none -no-reboot -serial stdio \
		-kernel "$debian"/boot/vmlinuz-* -initrd "$dir/initrd" \
		-append 'console=ttyAMA0 quiet panic=-1 rdinit=/init' </dev/null | sed -u 's/\r$//' >"$work/$1" || true
	rm -rf "$dir"
	echo "$1: CPU $2: $((SECONDS - start)) s"
	grep -qx '@ status 0' "$work/$1"
}

# read_files FILE FOLDER unpacks the files that a machine has printed, and adds its libraries.
read_files() {
	mkdir -p "$2"
	cp -L "$debian"/lib/aarch64-linux-gnu/*.so* "$2"
	cp -L "$debian"/usr/lib/aarch64-linux-gnu/*.so* "$2"
	awk -v dir="$2" '/^@ end of file/ { close(pipe); pipe = "" } pipe { print | pipe } /^@ file / { pipe = "base64 -d >" dir "/" $3 }' "$1"
}

# run_machines runs them all, and then the tests of the cores that they wrote.
run_machines() {
	local i names=() jobs=() job
	for i in "${!machines[@]}"; do
		names+=("machine$i")
		run_machine "machine$i" ${machines[i]} &
		jobs+=($!)
	done
	tail -q -n +1 -F "${names[@]/#/$work/}" --pid $$ 2>/dev/null | sed -u '/^@ file /,/^@ end of file/d' &
	for job in "${jobs[@]}"; do wait "$job" || failed=1; done
	is_chosen tools/jscore || return 0
	for i in "${names[@]}"; do
		grep -q '^@ file ' "$work/$i" || continue
		read_files "$work/$i" "$work/arm64-$i" || failed=1
		USTACK_CORES_FROM=$work/arm64-$i go_test tools/jscore '^TestCoresCrossArchitectures$' || failed=1
		read_back=1
	done
	[[ -n ${read_back:-} ]] || { echo 'no core was written on arm64' >&2; failed=1; }
}

form=short
if [[ ${1:-} == short || ${1:-} == long ]]; then
	form=$1
	shift
fi
declare -n tests=$form machines=${form}_machines majors=${form}_majors limit=${form}_limit
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
root=$work/root
trap 'rm -rf "$work"' EXIT
fetch_debian
make_root
(cd "$root" && find . | cpio --quiet -o -H newc) >"$work/initrd"
rm -rf "$root"
failed=0
run_machines
grep -hE '^@ failed|^ *--- (FAIL|SKIP)' "$work"/machine* >&2 || true
((failed == 0)) || echo 'tests failed on arm64' >&2
exit $failed
