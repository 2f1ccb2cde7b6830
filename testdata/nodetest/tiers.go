package nodetest

import (
	"runtime"
	"strconv"
	"strings"

	"ustack/symbolize"
)

// Tiers are the compilers a program can be held to.
var Tiers = []symbolize.Tier{
	symbolize.Interpreted, symbolize.Baseline, symbolize.Maglev, symbolize.Turbofan,
}

// Flags that every tier needs: no function without a frame of its own, none
// entered in the middle of a loop, no compiler that runs beside the program.
var unmixed = []string{
	"--allow-natives-syntax",
	"--no-turbo-inlining",
	"--max-inlined-bytecode-size=0",
	"--max-inlined-bytecode-size-cumulative=0",
	"--no-use-osr",
	"--no-concurrent-recompilation",
}

var noMaglevInlining = []string{
	"--no-maglev-inlining", "--no-maglev-osr", "--max-maglev-inlined-bytecode-size=0",
}

// TierFlags returns node's flags that hold a program of that version to tier,
// and whether the version has the tier at all. Maglev and TurboFan also need
// the program to ask for each function, as nested.js does when its arguments
// hold "--tier=" and the tier's word.
func TierFlags(version string, tier symbolize.Tier) ([]string, bool) {
	major := Major(version)
	flags := append([]string{}, unmixed...)
	if major >= 20 && tier != symbolize.Maglev {
		flags = append(flags, "--no-maglev")
	}
	switch tier {
	case symbolize.Interpreted:
		return append(flags, "--no-opt", "--no-sparkplug"), true
	case symbolize.Baseline:
		flags = append(flags, "--no-opt", "--sparkplug", "--always-sparkplug")
		if runtime.GOARCH == "arm64" && (major == 18 || major == 20) {
			// With signed return addresses, these crash by themselves when they first collect
			// the whole heap: they do not have to.
			flags = append(flags, "--initial-old-space-size=256")
		}
		return flags, true
	case symbolize.Maglev:
		flags = append(flags, "--maglev", "--no-opt")
		return append(flags, noMaglevInlining...), major >= 24
	case symbolize.Turbofan:
		return flags, true
	}
	return nil, false
}

// Major returns the first number of a version: 22 of "22.23.3", 0 of what is none.
func Major(version string) int {
	first, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return n
}

// NoInlining returns node's flags that give every function a frame of its own
// but leave the choice of compilers to V8.
func NoInlining(version string) []string {
	flags := []string{
		"--no-turbo-inlining",
		"--max-inlined-bytecode-size=0",
		"--max-inlined-bytecode-size-cumulative=0",
	}
	if Major(version) >= 22 {
		flags = append(flags, "--no-maglev-inlining", "--max-maglev-inlined-bytecode-size=0")
	}
	return flags
}

// CalmFlags returns node's flags that keep V8 from collecting garbage in a process that
// waits.
func CalmFlags(version string) []string {
	flags := []string{"--single-threaded-gc", "--no-memory-reducer"}
	if Major(version) < 20 {
		return append(flags, "--no-scavenge-task")
	}
	return append(flags, "--no-minor-gc-task")
}
