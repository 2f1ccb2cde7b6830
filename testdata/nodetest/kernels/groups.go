// Package kernels runs tests of the tools on other kernels than this machine's: each in a
// virtual machine that qemu emulates, so that no KVM is needed.
package kernels

// A Group is tests of one package that show that something works.
type Group struct {
	Columns []string // of README.md's table: what works, or is refused, if they pass; none for tests that no column is about
	Package string
	Run     string // pattern of the tests' names
	Before  string // what the machine's shell does first, for this group and those that follow
	Kernels Range
}

// A Range says on which kernels a group runs.
type Range int

// Ranges.
const (
	Supported Range = iota // Linux 5.15 and newer
	TooOld                 // older ones
	Every
)

// Groups have no test that needs a debugger, another machine's network or the pace of real
// hardware. Those that change the machine come last.
var Groups = []Group{
	{Package: "loader", Run: "^Test"},
	{Package: "bpf", Run: "^Test"},
	{Package: "tools/check", Run: "^Test(ToolsNeed|ProgramsCannot|AccessNames|ToolsWork|Machine)", Before: "echo 3 >/proc/sys/kernel/perf_event_paranoid"},
	{Package: "tools/check", Run: "^TestToolsNeed", Before: "echo 2 >/proc/sys/kernel/perf_event_paranoid"},
	{Columns: []string{"jsprof"}, Package: "tools/jsprof", Run: "^TestStackEqualsErrorStack$/^node22$/^(interpreted|turbofan)$/^plain$"},
	{Columns: []string{"jsprof"}, Package: "tools/jsprof", Run: "^Test(EverySampleIsCounted|WorkersAreNamedApart|StacksEndWhereThreadsStart)$/^(26.10.0|node26)$"},
	{Columns: []string{"jsprof"}, Package: "cmd/jsprof", Run: "^TestScripts$/^kernel$"},
	{Columns: []string{"jsprof -e"}, Package: "tools/jsprof", Run: "^Test(EventsAreThoseOfTheKernel|CallsAreCountedExactly)$/^node26$"},
	{Columns: []string{"jsprof -e"}, Package: "tools/jsprof", Run: "^Test(DurationsAreOfCalls|StaticProbesAreEnabledAndCounted|TracepointsAreCounted)$"},
	{Columns: []string{"jsprof --off-cpu"}, Package: "tools/jsprof", Run: "^Test(ThreadsAreSomewhereAllTheTime|IdleThreadsAreLeftOut)$"},
	{Columns: []string{"jsprof --alloc"}, Package: "tools/jsprof", Run: "^Test(AllocationsAreThoseOfTheProgram|PausesAreThoseOfPerfHooks)$/^26.10.0$"},
	{Columns: []string{"addonlat"}, Package: "tools/addonlat", Run: "^Test(UringOperationsAreCountedApart|CountsTimesAndBucketsAreExact)$/^node22$"},
	{Package: "tools/nodesnoop", Run: "^Test(EveryRequestIsSeen|EveryRequestThatIsMadeIsSeen|CollectionsAreThoseOfPerfHooks)$/^node26$"},
	{Columns: []string{"stopon"}, Package: "tools/stopon", Run: "^Test(Calls.*|TriggersAreCountedExactly)$"},
	{Columns: []string{"stopon"}, Package: "tools/stopon", Run: "^Test(TriggersFireOnWhatTheyName|StackIsTheProgramsOwn|ExitIsCaughtBeforeItHappens)$/^node22$/^(errno|path|write|slow_call|signal|function|return)$"},
	{Columns: []string{"stopon --gcore"}, Package: "tools/stopon", Run: "^Test(SeedCase|AbortLeavesTheKernelsCore)$/^node22$"},
	{
		Columns: []string{"jsprof", "jsprof -e", "jsprof --off-cpu", "jsprof --alloc"},
		Package: "cmd/jsprof", Run: "^TestKernelThatLacksSomethingIsRefused$", Kernels: TooOld,
	},
	{Columns: []string{"addonlat"}, Package: "cmd/addonlat", Run: "^TestKernelThatLacksSomethingIsRefused$", Kernels: TooOld},
	{Columns: []string{"stopon", "stopon --gcore"}, Package: "cmd/stopon", Run: "^TestKernelThatLacksSomethingIsRefused$", Kernels: TooOld},
	{
		Columns: []string{"jscore"}, Package: "tools/core", Kernels: Every,
		Run: "^Test(EveryKindOfMemory|BothScansFindTheSame|ScanGoesOn|RegistersAreThoseOfTheSystemCall|SignalsDuringTheStopArrive|WaitsAreNotCutShort|GroupStopOutlivesOurs)$/^copied$",
	},
	{Columns: []string{"jscore"}, Package: "tools/core", Run: "^TestCoreIsTheProcess$/^22.23.3$/^copied", Kernels: Every},
	{Columns: []string{"jscore"}, Package: "tools/jscore", Run: "^Test(KernelsCoreTellsWhy|AttachLeavesTheProcessRunning)$", Kernels: Every},
	{Columns: []string{"jscore"}, Package: "tools/jscore", Run: "^TestHeap$/^22.23.3$", Kernels: Every},

	{Package: "cmd/stopon", Run: "^TestKernelThatLacksSomethingIsRefused$"},
	{Package: "cmd/jsprof", Run: "^TestKernelThatLacksSomethingIsRefused$", Before: "echo confidentiality >/sys/kernel/security/lockdown"},
	{Package: "cmd/addonlat", Run: "^TestKernelThatLacksSomethingIsRefused$"},
	{Package: "cmd/stopon", Run: "^TestKernelThatLacksSomethingIsRefused$"},
}
