// Package kernels runs tests of the tools on other kernels than this machine's: each in a
// virtual machine that qemu emulates, so that no KVM is needed.
package kernels

import (
	"fmt"
	"slices"
)

// A Group is tests of one package that show that something works.
type Group struct {
	Columns []string // of README.md's table: what works, or is refused, if they pass; none for tests that no column is about
	Package string
	Run     string // pattern of the tests' names
	Before  string // what the machine's shell does first, for this group and those that follow
	Kernels Range
	Machine Machine
}

// A Machine is one of those that run side by side, each some of the groups, in their order.
type Machine int

const (
	first Machine = iota
	second
	machines
)

// A Range is versions of Linux: from the first of them, but before the second, if there is one.
type Range struct{ From, Before [2]int }

// Ranges. The zero Range is of those that the tools support.
var (
	supported = Range{From: [2]int{5, 15}}
	tooOld    = Range{Before: [2]int{5, 15}}
	every     = Range{From: [2]int{1, 0}}
)

// has reports whether the range has a version.
func (r Range) has(version [2]int) bool {
	if r == (Range{}) {
		r = supported
	}
	return slices.Compare(version[:], r.From[:]) >= 0 &&
		(r.Before == [2]int{} || slices.Compare(version[:], r.Before[:]) < 0)
}

// runsFor reports whether the group runs on a version of Linux, if one column is asked for, or
// all if that is empty.
func (g Group) runsFor(version [2]int, column string) bool {
	return g.Kernels.has(version) && (column == "" || slices.Contains(g.Columns, column))
}

// Groups have no test that needs a debugger, another machine's network or the pace of real
// hardware. Those that change the machine come last.
var Groups = []Group{
	{Package: "loader", Run: "^Test"},
	{Package: "bpf", Run: "^Test"},
	{Columns: []string{"jsprof"}, Package: "tools/jsprof", Run: "^TestStackEqualsErrorStack$/^node22$/^(interpreted|turbofan)$"},
	{Columns: []string{"jsprof"}, Package: "tools/jsprof", Run: "^Test(EverySampleIsCounted|WorkersAreNamedApart|StacksEndWhereThreadsStart)$/^(26.10.0|node26)$"},
	{Columns: []string{"jsprof"}, Package: "cmd/jsprof", Run: "^TestScripts$/^kernel$"},
	{Columns: []string{"jsprof -e"}, Package: "tools/jsprof", Run: "^Test(EventsAreThoseOfTheKernel|CallsAreCountedExactly)$/^node26$"},
	{Columns: []string{"jsprof -e"}, Package: "tools/jsprof", Run: "^Test(DurationsAreOfCalls|StaticProbesAreEnabledAndCounted|TracepointsAreCounted)$"},
	{Columns: []string{"jsprof --off-cpu"}, Package: "tools/jsprof", Run: "^Test(RunnableTimeIsWhatTheKernelCounts|IdleThreadsAreLeftOut)$/^starved$"},
	{Columns: []string{"jsprof --alloc"}, Package: "tools/jsprof", Run: "^Test(AllocationsAreThoseOfTheProgram|PausesAreThoseOfPerfHooks)$/^26.10.0$"},
	{Package: "tools/check", Run: "^Test(ToolsNeed|ProgramsCannot|AccessNames|ToolsWork|Machine)", Before: "echo 3 >/proc/sys/kernel/perf_event_paranoid"},
	{Package: "tools/check", Run: "^TestToolsNeedTheirCapabilities$/PERFMON$", Before: "echo 2 >/proc/sys/kernel/perf_event_paranoid"},

	{Columns: []string{"addonlat"}, Package: "tools/addonlat", Run: "^Test(UringOperationsAreCountedApart|CountsTimesAndBucketsAreExact)$/^node22$", Machine: second},
	{Columns: []string{"nodesnoop"}, Package: "tools/nodesnoop", Run: "^Test(EveryRequestIsSeen|EveryRequestThatIsMadeIsSeen|EveryOperationIsSeen|CollectionsAreThoseOfPerfHooks|CollectionsHaveTheStackTheyInterrupt|LongIterationsHaveAStack)$/^node26$", Machine: second},
	{Columns: []string{"nodesnoop"}, Package: "tools/syscalls", Run: "^Test(CallsAreThoseOfTheProgram|SleepingCallIsShownWhileItSleeps)$/^node26$", Machine: second},
	{Columns: []string{"nodesnoop"}, Package: "tools/tcp", Run: "^Test(ConnectionsAreFollowedToTheirEnd|RetransmissionsAreSeen)$/^node26$", Machine: second},
	{Columns: []string{"stopon"}, Package: "tools/stopon", Run: "^Test(Calls.*|TriggersAreCountedExactly)$", Machine: second},
	{
		Columns: []string{"stopon"}, Package: "tools/stopon", Machine: second,
		Run: "^Test(TriggersFireOnWhatTheyName|StackIsTheProgramsOwn|ExitIsCaughtBeforeItHappens)$/^node22$/^(errno|path|write|slow_call|signal|function|return)$",
	},
	{Columns: []string{"logsnoop"}, Package: "tools/logsnoop", Run: "^Test(RecordsBelowTheLevelAreSeenWhileWatched|LinesAreThoseOfTheFiles)$/^26.10.0$", Machine: second},
	{Columns: []string{"logsnoop"}, Package: "tools/logsnoop", Run: "^Test(FilesAreChosen|ProbesOfOnesOwn)$", Machine: second},
	{Package: "tools/stopon", Run: "^TestStaticProbesAreTriggers$", Machine: second},
	{Columns: []string{"stopon --gcore"}, Package: "tools/stopon", Run: "^Test(SeedCase|AbortLeavesTheKernelsCore)$/^node22$", Machine: second},
	{
		Columns: []string{"jsprof", "jsprof -e", "jsprof --off-cpu", "jsprof --alloc"},
		Package: "cmd/jsprof", Run: "^TestKernelThatLacksSomethingIsRefused$", Kernels: tooOld,
	},
	{Columns: []string{"addonlat"}, Package: "cmd/addonlat", Run: "^TestKernelThatLacksSomethingIsRefused$", Kernels: tooOld},
	{Columns: []string{"stopon", "stopon --gcore"}, Package: "cmd/stopon", Run: "^TestKernelThatLacksSomethingIsRefused$", Kernels: tooOld},
	{
		Columns: []string{"jscore"}, Package: "tools/core", Kernels: every, Machine: second,
		Run: "^Test(EveryKindOfMemory|BothScansFindTheSame|ScanGoesOn|RegistersAreThoseOfTheSystemCall|SignalsDuringTheStopArrive|WaitsAreNotCutShort|GroupStopOutlivesOurs)$/^copied$",
	},
	{Columns: []string{"jscore"}, Package: "tools/core", Run: "^TestCoreIsTheProcess$/^22.23.3$/^copied", Kernels: every, Machine: second},
	{Columns: []string{"jscore"}, Package: "tools/jscore", Run: "^Test(KernelsCoreTellsWhy|AttachLeavesTheProcessRunning)$", Kernels: every, Machine: second},
	{Columns: []string{"jscore"}, Package: "tools/jscore", Run: "^TestHeap$/^22.23.3$", Kernels: every, Machine: second},

	// The kernel locked down, at first only as far as the tools work in full.
	{Package: "cmd/jsprof", Run: "^TestScripts$/^kernel$", Before: "echo integrity >" + lockdown, Machine: second},
	{Package: "cmd/stopon", Run: "^TestEveryProcessOfAName$", Machine: second},
	{Package: "tools/addonlat", Run: "^TestUringOperationsAreCountedApart$/^node22$", Machine: second},

	// Control groups of version 1 alone; the controller of memory may be left out since Linux 6.11.
	{
		Package: "cmd/stopon", Run: "^Test(KernelThatLacksSomethingIsRefused|EveryProcessOfAName)$", Machine: second,
		Before: "umount /sys/fs/cgroup && mount -t tmpfs groups /sys/fs/cgroup && " + mountGroups("named", "none,name=named"),
	},
	{
		Package: "tools/core", Run: "^TestMemorySharedWithAChildIsNotCopied$", Machine: second, Before: mountGroups("memory", "memory"),
		Kernels: Range{From: supported.From, Before: [2]int{6, 11}},
	},

	{Package: "cmd/jsprof", Run: "^TestKernelThatLacksSomethingIsRefused$", Before: "echo confidentiality >" + lockdown, Machine: second},
	{Package: "cmd/addonlat", Run: "^TestKernelThatLacksSomethingIsRefused$", Machine: second},
	{Package: "cmd/stopon", Run: "^TestKernelThatLacksSomethingIsRefused$", Machine: second},
}

const lockdown = "/sys/kernel/security/lockdown"

// mountGroups returns the command that mounts control groups of version 1.
func mountGroups(name, options string) string {
	return fmt.Sprintf("mkdir /sys/fs/cgroup/%[1]s && mount -t cgroup -o %[2]s groups /sys/fs/cgroup/%[1]s", name, options)
}
