// Package jobs finds where libuv handles the jobs of its thread pool, for tools that probe
// there, and says what jobs of libuv and of node are called.
package jobs

import (
	"fmt"
	"slices"

	"ustack/bpf"
	"ustack/symbolize/libuv"
	"ustack/tools/trace"
)

// A Moment is when a program runs.
type Moment int

// The moments of a job, of libuv's initialization, and of what is no job.
const (
	Begun       Moment = iota // within a thread, just before it runs the job
	Ran                       // just after it
	Completed                 // on the loop's thread, in most cases with the job and a status
	ByRing                    // a function returns 1 if io_uring does a file system operation
	Initialized               // uv_check_init()
	Submitted                 // uv__work_submit(loop, job, kind, work, done)
	Queued                    // uv_queue_work(loop, request, work, done)
)

// Probes are the places at which a program runs for one moment.
type Probes struct {
	Moment  Moment
	Name    string // a function's
	Returns bool   // the program runs when the function returns
	Points  []Point
}

// A Point is one place.
type Point struct {
	Offset uint64 // in the file
	Place  uint32 // what the kernel half has to know about it: bpf/work.h
}

// Places are all places in a module with libuv, those at which jobs end first: a job whose
// submission is seen is then seen to its end.
type Places struct {
	Probes  []Probes
	Missing []string // what is not seen, and the functions that were not found
	Unseen  bool     // some completions are not seen
}

// A function is one in libuv, at whose entry or return something happens to a job.
type function struct {
	moment    Moment
	symbol    string
	arguments int // that the program reads, of the first four
	returns   bool
	work      bpf.TraceWorkKind
	missing   string // what is not measured without it; empty if older versions do not have it
}

// inLibuv are the functions in libuv (src/threadpool.c, src/unix/{fs,getaddrinfo,
// getnameinfo,random-*}.c, 1.43 to 1.52), in order. All but uv_check_init and
// uv_queue_work are in .symtab only; without symbols, the package libuv finds them.
var inLibuv = slices.Concat(
	[]function{
		{moment: Completed, symbol: libuv.QueueDone, arguments: 2, work: bpf.TraceWorkKindWORK_QUEUED, missing: queueDone},
		{moment: Completed, symbol: "uv__fs_done", arguments: 2, work: bpf.TraceWorkKindWORK_FS, missing: "when file system operations complete"},
		{moment: Completed, symbol: "uv__getaddrinfo_done", arguments: 2, work: bpf.TraceWorkKindWORK_ADDRINFO, missing: "when DNS look-ups complete"},
		{moment: Completed, symbol: "uv__getnameinfo_done", arguments: 2, work: bpf.TraceWorkKindWORK_NAMEINFO, missing: "when reverse DNS look-ups complete"},
		{moment: Completed, symbol: "uv__random_done", arguments: 2, work: bpf.TraceWorkKindWORK_RANDOM, missing: "when random bytes are complete"},
	},
	uring("close", "fsync_or_fdatasync", "ftruncate", "link", "mkdir", "open", "read_or_write", "rename", "statx", "symlink", "unlink"),
	[]function{
		{moment: Initialized, symbol: "uv_check_init"},
		{moment: Submitted, symbol: libuv.WorkSubmit, arguments: 4, missing: "when file system and DNS work is submitted"},
		{moment: Queued, symbol: libuv.QueueWork, arguments: 4},
	},
)

const queueDone = "when the work of add-ons, crypto and zlib completes"

// uring are the functions that hand a file system operation to io_uring, in versions
// of libuv that can (1.45).
func uring(operations ...string) (all []function) {
	for _, o := range operations {
		all = append(all, function{moment: ByRing, symbol: "uv__iou_fs_" + o, returns: true})
	}
	return all
}

// Find returns the places in m.
func Find(m *trace.Module) (p Places) {
	all := functionsOf(m)
	p.findWorker(all)
	p.findInlined(all)
	for _, f := range inLibuv {
		site := all.site(f.symbol)
		if site.Code == nil {
			if f.missing != "" {
				p.Unseen = p.Unseen || f.moment == Completed
				p.Missing = append(p.Missing, fmt.Sprintf("%s (%s)", f.missing, f.symbol))
			}
			continue
		}
		if !f.returns {
			site.Offset += uint64(site.Entry(f.arguments))
		}
		p.add(f.moment, f.symbol, f.returns, Point{Offset: site.Offset, Place: uint32(f.work)})
	}
	return p
}

// add adds a place, to those of the same moment if they came last.
func (p *Places) add(moment Moment, name string, returns bool, at Point) {
	if last := len(p.Probes) - 1; last >= 0 && p.Probes[last].Moment == moment {
		p.Probes[last].Points = append(p.Probes[last].Points, at)
		return
	}
	p.Probes = append(p.Probes, Probes{moment, name, returns, []Point{at}})
}

// findWorker finds where the pool's threads call a job and return from it.
func (p *Places) findWorker(all functions) {
	f := all.site(libuv.Worker)
	c, ok := f.Call()
	if !ok {
		p.Missing = append(p.Missing, "when work runs ("+libuv.Worker+")")
		return
	}
	p.add(Ran, libuv.Worker, false, Point{f.Offset + uint64(c.After), uint32(c.Register)})
	p.add(Begun, libuv.Worker, false, Point{f.Offset + uint64(c.Before), uint32(c.Register)})
}

// Parts of a Place where a job completes: which kind of work it is for and, where no
// function is called for it, which register holds an address in the job, and its offset
// there.
const (
	byRegister    = 1 << 8
	registerShift = 9
	offsetShift   = 16
)

// findInlined finds where queued work completes without a call, if libuv was compiled that
// way.
func (p *Places) findInlined(all functions) {
	done, f := all.named(libuv.QueueDone), all.site(libuv.WorkDone)
	if done.Code == nil || f.Code == nil {
		return
	}
	c, found, mentioned := f.Completion(done.Address)
	switch {
	case mentioned && !found:
		p.Unseen = true
		p.Missing = append(p.Missing, fmt.Sprintf("%s (%s within %s)", queueDone, libuv.QueueDone, libuv.WorkDone))
	case found:
		place := int(bpf.TraceWorkKindWORK_QUEUED) | byRegister | c.Register<<registerShift | int(c.Offset)<<offsetShift
		p.add(Completed, libuv.WorkDone, false, Point{f.Offset + uint64(c.At), uint32(place)})
	}
}

// functions are those of a module: from its symbols, or as they were found.
type functions struct {
	*trace.Module
	found map[string]libuv.Function
}

// named returns the function of that name, without code if there is no such function.
func (f functions) named(name string) libuv.Function {
	if code, offset := f.Code(name); code != nil {
		address, _ := f.Address(name) // it has code
		return libuv.Function{Code: code, Offset: offset, Address: address}
	}
	return f.found[name]
}

// site returns the function of that name as named does, to be probed.
func (f functions) site(name string) libuv.Site {
	return libuv.Site{Function: f.named(name), Machine: f.Machine()}
}

// functionsOf returns the functions of a module that holds libuv. Those without
// symbols are searched for in its machine code.
func functionsOf(m *trace.Module) functions {
	f := functions{Module: m}
	if f.named(libuv.Worker).Code != nil {
		return f
	}
	if im, err := libuv.Open(m, m.Pointer); err == nil { // what is not found will be reported
		f.found = im.Functions(m.Address)
	}
	return f
}
