package core

import (
	"context"
	"time"

	"ustack/tools/descriptors"
)

// noteDescriptors is the type of the note, of owner noteOwner, that contains the process's
// descriptors, in the binary form of descriptors.List.
const noteDescriptors = 3

// descriptorsLimit bounds the time of one reading of the descriptors: enough for some ten
// thousand of them.
const descriptorsLimit = 200 * time.Millisecond

// Descriptors returns the files and sockets that the process had open, or nil if the core does
// not say.
func (f *File) Descriptors() *descriptors.List { return f.descriptors }

// readDescriptors parses the note.
func (f *File) readDescriptors(desc []byte) {
	l := new(descriptors.List)
	if l.UnmarshalBinary(desc) == nil {
		f.descriptors = l
	}
}

// addDescriptors appends the note, if the descriptors are known.
func (n *notes) addDescriptors(l *descriptors.List) {
	if l != nil {
		n.add(noteOwner, noteDescriptors, l.Binary())
	}
}

// openFiles are a process's descriptors while its core is taken. To read them takes longer than
// to copy the memory of a small process, so it is done before and after the stop, not during it.
type openFiles struct {
	before   *descriptors.List // nil if they cannot be read
	stopped  bool              // a signal had stopped the process before they were read
	complete *descriptors.List // of the moment of the stop; nil if they are not known
}

// readBefore reads the descriptors before the stop.
func (o *openFiles) readBefore(ctx context.Context, pid int) {
	if info, err := readInfo(pid); err == nil {
		o.stopped = info.state == 'T'
	}
	o.before = readNow(ctx, pid)
}

// finish finds out what they were while the threads were stopped.
func (o *openFiles) finish(ctx context.Context, pid int, threads []Thread) {
	for _, t := range threads {
		o.stopped = o.stopped && t.Signal != 0
	}
	if o.stopped {
		o.complete = o.before // it has not run in between
		return
	}
	if after := readNow(ctx, pid); o.before != nil && after != nil {
		o.complete = descriptors.Between(o.before, after)
	}
}

// readNow returns nil if they cannot be read: a core without them is still a core.
func readNow(ctx context.Context, pid int) *descriptors.List {
	ctx, cancel := context.WithTimeout(ctx, descriptorsLimit)
	defer cancel()
	l, _ := descriptors.Read(ctx, pid)
	return l
}
