package addonlat

import (
	"ustack/symbolize/libuv"
	"ustack/tools/trace"
)

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

// jumpedFrom returns the name of the function that was left by a tail call before the
// stack's first frame, empty if there was none or it is not known for certain. The
// second frame is the job's work.
func jumpedFrom(t *trace.Table, stack trace.Stack) string {
	m, addresses := t.Leaf(stack)
	if m == nil || len(addresses) < 2 {
		return ""
	}
	im, err := libuv.Open(m, m.Pointer) // which understands x86-64 only
	if err != nil {
		return ""
	}
	submitter := im.Submitter(addresses[0], addresses[1])
	if submitter == 0 {
		return ""
	}
	return m.Name(submitter)
}
