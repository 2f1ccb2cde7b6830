package jscore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

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

// nodeConstant reads one of the constants that Node.js keeps for debuggers, which it
// sets on startup.
func (d *Dump) nodeConstant(name string) (uint64, error) {
	if d.v8.Module == nil || d.v8.Module.ELF == nil {
		return 0, errNoNode
	}
	symbol, ok := d.v8.Module.ELF.Symbol("nodedbg_" + name)
	if !ok {
		return 0, fmt.Errorf("find %s: %w", name, errNoNode)
	}
	var b [4]byte
	if _, err := d.ReadAt(b[:], symbol.Address+d.Bias()); err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	return uint64(binary.LittleEndian.Uint32(b[:])), nil
}

// environments returns the addresses of node's C++ objects that represent threads
// running JavaScript.
func (d *Dump) environments(g *Graph) ([]uint64, error) {
	slot, err := d.nodeConstant("const_ContextEmbedderIndex__kEnvironment__int")
	if err != nil {
		return nil, err
	}
	if slot > maxEmbedderSlot {
		return nil, fmt.Errorf("find node's environment: in slot %d", slot)
	}
	var found []uint64
	seen := map[uint64]bool{0: true}
	for id := range heap.ID(g.Len()) {
		if g.Map(id).Kind != "NativeContext" || len(found) >= maxEnvironments {
			continue
		}
		array, err := d.Word(g.Address(id) + embedderData)
		if err != nil {
			continue // another embedder's
		}
		environment, err := d.Word(v8.Value(array).Address() + 16 + slot*wordSize)
		if err == nil && !seen[environment] && d.isEnvironment(environment) {
			seen[environment] = true
			found = append(found, environment)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("find node's environment: no context has one")
	}
	return found, nil
}

// isEnvironment reports whether the process may write to the memory there: a context
// that is not node's may hold anything in that place.
func (d *Dump) isEnvironment(address uint64) bool {
	r, ok := d.Region(address)
	return ok && r.Write && address%wordSize == 0
}

// queue visits the nodes of an environment's list, given the metadata's names for the
// list and for the list's place in its elements.
func (d *Dump) queue(environment uint64, list, member string, visit func(object uint64)) error {
	head, err := d.nodeConstant("offset_Environment__" + list)
	if err != nil {
		return err
	}
	within, err := d.nodeConstant(member)
	if err != nil {
		return err
	}
	const next = 8 // of a ListNode, after the previous one
	head += environment
	node, err := d.Word(head + next)
	for n := 0; err == nil && node != head; n++ {
		if n == maxListed {
			return fmt.Errorf("read list at %x: more than %d", head, maxListed)
		}
		visit(node - within)
		node, err = d.Word(node + next)
	}
	return err
}

// A NodeObject is a C++ object of Node.js with its JavaScript object.
type NodeObject struct {
	Wrap   Address `json:"wrap"`   // the C++ object
	Object Brief   `json:"object"` // kind "<bad>" if there is none

	// The rest is for handles.
	Type       string `json:"type,omitempty"` // libuv's: "tcp", "timer" …
	Active     bool   `json:"active,omitempty"`
	Referenced bool   `json:"referenced,omitempty"` // it keeps the program running while active
	Closing    bool   `json:"closing,omitempty"`
	FD         *int   `json:"fd,omitempty"`
}

// NodeObjects are objects that wait for something: handles or requests.
type NodeObjects struct {
	What    string       `json:"what"` // "handles" or "requests"
	Objects []NodeObject `json:"objects"`
}

// Handles returns what node listens to: sockets, pipes, signals, node's own timers.
func (d *Dump) Handles(g *Graph) (*NodeObjects, error) {
	list := &NodeObjects{What: "handles", Objects: []NodeObject{}}
	err := d.listed(g, "handle_wrap_queue___Environment_HandleWrapQueue",
		"offset_HandleWrap__handle_wrap_queue___ListNode_HandleWrap", func(o uint64) {
			object := d.nodeObject(o)
			if within, err := d.nodeConstant("offset_HandleWrap__handle_wrap_queue___ListNode_HandleWrap"); err == nil {
				d.addHandle(&object, o+within)
			}
			list.Objects = append(list.Objects, object)
		})
	return list, err
}

// Requests returns what node has requested from the system and not received yet.
func (d *Dump) Requests(g *Graph) (*NodeObjects, error) {
	list := &NodeObjects{What: "requests", Objects: []NodeObject{}}
	err := d.listed(g, "req_wrap_queue___Environment_ReqWrapQueue",
		"offset_ReqWrap__req_wrap_queue___ListNode_ReqWrapQueue", func(o uint64) {
			list.Objects = append(list.Objects, d.nodeObject(o))
		})
	return list, err
}

// listed visits the elements of the lists of that name, in all environments.
func (d *Dump) listed(g *Graph, list, member string, visit func(object uint64)) error {
	environments, err := d.environments(g)
	if err != nil {
		return err
	}
	for _, environment := range environments {
		if err := d.queue(environment, list, member, visit); err != nil {
			return fmt.Errorf("read node's environment at %x: %w", environment, err)
		}
	}
	return nil
}

// nodeObject reads the C++ object at an address, which is a BaseObject.
func (d *Dump) nodeObject(address uint64) NodeObject {
	o := NodeObject{Wrap: Address(address), Object: Brief{Kind: "<bad>"}}
	at, err := d.nodeConstant("offset_BaseObject__persistent_handle___v8_Persistent_v8_Object")
	if err != nil {
		return o
	}
	slot, err := d.Word(address + at)
	if err != nil || slot == 0 {
		return o
	}
	if word, err := d.Word(slot); err == nil && d.v8.Heap != nil {
		o.Object = value.BriefOf(d.v8.Heap, v8.Value(word))
	}
	return o
}

// addHandle adds what the libuv handle says about a HandleWrap whose place in the queue
// is at an address. The handle must refer back.
func (d *Dump) addHandle(o *NodeObject, queue uint64) {
	handle, err := d.Word(queue + handlePointer)
	if err != nil {
		return
	}
	if back, err := d.Word(handle + uvData); err != nil || back != uint64(o.Wrap) {
		return
	}
	kind, err := d.Word(handle + uvType)
	if kind = uint64(uint32(kind)); err != nil || kind >= uint64(len(uvTypes)) {
		return
	}
	o.Type = uvTypes[kind]
	flags, err := d.Word(handle + uvFlags)
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
	if word, err := d.Word(handle + at); err == nil {
		fd := int(int32(uint32(word)))
		o.FD = &fd
	}
}

// WriteText writes a line for each object.
func (l *NodeObjects) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, o := range l.Objects {
		fmt.Fprintf(&b, "%s %s (%v)\n", o.Object.Address, o.Object.Class, o.text())
	}
	if len(l.Objects) == 0 {
		fmt.Fprintf(&b, "no %s\n", l.What)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (o NodeObject) text() string {
	text := fmt.Sprintf("wrap: %s", o.Wrap)
	if o.Type == "" {
		return text
	}
	state := "inactive"
	switch {
	case o.Closing:
		state = "closing"
	case o.Active && o.Referenced:
		state = "active"
	case o.Active:
		state = "active, unref"
	}
	text = fmt.Sprintf("%s, %s, %s", o.Type, state, text)
	if o.FD != nil {
		text = fmt.Sprintf("fd %d, %s", *o.FD, text)
	}
	return text
}

// Addresses returns the addresses of the JavaScript objects.
func (l *NodeObjects) Addresses() []v8.Value {
	var values []v8.Value
	for _, o := range l.Objects {
		if value := v8.Value(o.Object.Address); value.IsObject() {
			values = append(values, value)
		}
	}
	return values
}
