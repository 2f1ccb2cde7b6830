package nodejs

import (
	"encoding/binary"
	"errors"
	"fmt"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/value"
)

// Bounds on what is read of Node.js's own memory.
const (
	maxListed       = 1 << 20 // handles, requests or timers
	maxEnvironments = 1 << 10 // one for each thread that runs JavaScript
)

// Offsets that Node.js's metadata does not contain, in all its versions.
const (
	wordSize        = 8
	embedderData    = 48 // of a native context: an array of words
	handlePointer   = 16 // of a HandleWrap, from its place in the queue: its libuv handle
	uvData          = 0  // of a uv_handle_t: the HandleWrap
	uvType          = 16 // likewise
	uvFlags         = 88
	uvStreamFD      = 184 // of a uv_stream_t
	uvUDPFD         = 176 // of a uv_udp_t
	uvClosing       = 1 << 0
	uvClosed        = 1 << 1
	uvActive        = 1 << 2
	uvReferenced    = 1 << 3
	maxEmbedderSlot = 1 << 10
)

// uvTypes are libuv's names of handle types, by number.
var uvTypes = []string{
	"unknown", "async", "check", "fs_event", "fs_poll", "handle", "idle", "pipe", "poll", "prepare",
	"process", "stream", "tcp", "timer", "tty", "udp", "signal",
}

var errNoNode = errors.New("not Node.js, or built without its metadata (nodedbg_ symbols)")

// constant reads one of the constants that Node.js keeps for debuggers, which it
// sets on startup.
func (p *Process) constant(name string) (uint64, error) {
	if p.v8.Module == nil || p.v8.Module.ELF == nil {
		return 0, errNoNode
	}
	symbol, ok := p.v8.Module.ELF.Symbol("nodedbg_" + name)
	if !ok {
		return 0, fmt.Errorf("find %s: %w", name, errNoNode)
	}
	var b [4]byte
	if _, err := p.space.ReadAt(b[:], symbol.Address+p.v8.Module.Bias); err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	return uint64(binary.LittleEndian.Uint32(b[:])), nil
}

// An environment is node's C++ object that represents a thread running JavaScript.
type environment struct{ address, heap uint64 }

// environments finds all of them.
func (p *Process) environments(g *heap.Graph) ([]environment, error) {
	slot, err := p.constant("const_ContextEmbedderIndex__kEnvironment__int")
	if err != nil {
		return nil, err
	}
	if slot > maxEmbedderSlot {
		return nil, fmt.Errorf("find node's environment: in slot %d", slot)
	}
	var found []environment
	seen := map[uint64]bool{0: true}
	for id := range heap.ID(g.Len()) {
		if g.Map(id).Kind != "NativeContext" || len(found) >= maxEnvironments {
			continue
		}
		array, err := p.space.Word(g.Address(id) + embedderData)
		if err != nil {
			continue // another embedder's
		}
		address, err := p.space.Word(v8.Value(array).Address() + 16 + slot*wordSize)
		if err == nil && !seen[address] && p.isEnvironment(address) {
			seen[address] = true
			found = append(found, environment{address, g.Page(id).Heap})
		}
	}
	if len(found) == 0 {
		return nil, errors.New("find node's environment: no context has one")
	}
	return found, nil
}

// isEnvironment reports whether the process may write to the memory there: a context
// that is not node's may hold anything in that place.
func (p *Process) isEnvironment(address uint64) bool {
	r, ok := p.space.Region(address)
	return ok && r.Write && address%wordSize == 0
}

// queue visits the nodes of an environment's list, given the metadata's names for the
// list and for the list's place in its elements.
func (p *Process) queue(environment uint64, list, member string, visit func(object uint64)) error {
	head, err := p.constant("offset_Environment__" + list)
	if err != nil {
		return err
	}
	within, err := p.constant(member)
	if err != nil {
		return err
	}
	const next = 8 // of a ListNode, after the previous one
	head += environment
	node, err := p.space.Word(head + next)
	for n := 0; err == nil && node != head; n++ {
		if n == maxListed {
			return fmt.Errorf("read list at %x: more than %d", head, maxListed)
		}
		visit(node - within)
		node, err = p.space.Word(node + next)
	}
	return err
}

// A Wrap is a C++ object of Node.js with its JavaScript object.
type Wrap struct {
	Address value.Address `json:"wrap"`   // the C++ object
	Object  value.Brief   `json:"object"` // of kind "<bad>" if the wrap has none
	Heap    uint64        `json:"-"`      // of its isolate

	// The rest is for handles.
	Type       string `json:"type,omitempty"` // libuv's: "tcp", "timer" …
	Active     bool   `json:"active,omitempty"`
	Referenced bool   `json:"referenced,omitempty"` // it keeps the program running while active
	Closing    bool   `json:"closing,omitempty"`
	FD         *int   `json:"fd,omitempty"`
	Owner      *Owner `json:"owner,omitempty"` // nil if it has none, or it is not known
}

// Handles returns what node listens to: sockets, pipes, signals, node's own timers.
func (p *Process) Handles(g *heap.Graph) ([]Wrap, error) {
	list := []Wrap{}
	err := p.listed(g, "handle_wrap_queue___Environment_HandleWrapQueue",
		"offset_HandleWrap__handle_wrap_queue___ListNode_HandleWrap", func(o, heap uint64) {
			object := p.wrap(o)
			object.Heap = heap
			if within, err := p.constant("offset_HandleWrap__handle_wrap_queue___ListNode_HandleWrap"); err == nil {
				p.addHandle(&object, o+within)
			}
			p.addOwner(&object)
			list = append(list, object)
		})
	return list, err
}

// Requests returns what node has requested from the system and not received yet.
func (p *Process) Requests(g *heap.Graph) ([]Wrap, error) {
	list := []Wrap{}
	err := p.listed(g, "req_wrap_queue___Environment_ReqWrapQueue",
		"offset_ReqWrap__req_wrap_queue___ListNode_ReqWrapQueue", func(o, heap uint64) {
			object := p.wrap(o)
			object.Heap = heap
			list = append(list, object)
		})
	return list, err
}

// listed visits the elements of the lists of that name, in all environments.
func (p *Process) listed(g *heap.Graph, list, member string, visit func(object, heap uint64)) error {
	environments, err := p.environments(g)
	if err != nil {
		return err
	}
	for _, e := range environments {
		if err := p.queue(e.address, list, member, func(object uint64) { visit(object, e.heap) }); err != nil {
			return fmt.Errorf("read node's environment at %x: %w", e.address, err)
		}
	}
	return nil
}

// wrap reads the C++ object at an address, which is a BaseObject.
func (p *Process) wrap(address uint64) Wrap {
	o := Wrap{Address: value.Address(address), Object: value.Brief{Kind: "<bad>"}}
	at, err := p.constant("offset_BaseObject__persistent_handle___v8_Persistent_v8_Object")
	if err != nil {
		return o
	}
	slot, err := p.space.Word(address + at)
	if err != nil || slot == 0 {
		return o
	}
	if word, err := p.space.Word(slot); err == nil && p.v8.Heap != nil {
		o.Object = value.BriefOf(p.v8.Heap, v8.Value(word))
	}
	return o
}

// addHandle adds what the libuv handle says about a HandleWrap whose place in the queue
// is at an address. The handle must refer back.
func (p *Process) addHandle(o *Wrap, queue uint64) {
	handle, err := p.space.Word(queue + handlePointer)
	if err != nil {
		return
	}
	if back, err := p.space.Word(handle + uvData); err != nil || back != uint64(o.Address) {
		return
	}
	kind, err := p.space.Word(handle + uvType)
	if kind = uint64(uint32(kind)); err != nil || kind >= uint64(len(uvTypes)) {
		return
	}
	o.Type = uvTypes[kind]
	flags, err := p.space.Word(handle + uvFlags)
	if err != nil {
		return
	}
	o.Active, o.Referenced, o.Closing = flags&uvActive != 0, flags&uvReferenced != 0, flags&(uvClosing|uvClosed) != 0
	at := uint64(uvStreamFD)
	switch o.Type {
	case "udp":
		at = uvUDPFD
	case "tcp", "pipe", "tty":
	default:
		return
	}
	if word, err := p.space.Word(handle + at); err == nil {
		fd := int(int32(uint32(word)))
		o.FD = &fd
	}
}
