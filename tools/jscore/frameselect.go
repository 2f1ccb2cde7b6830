package jscore

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/stack"
	"ustack/symbolize/v8/value"
)

// A FrameID names a frame, and a function in it.
type FrameID struct {
	FP      uint64 // frame pointer
	Inlined int    // functions that are inlined there, from the frame's own on; 0: the frame's own
	One     bool   // only this function, not all of the frame
}

// maxFrameNumber is above the numbers of frames, and below all frame pointers.
const maxFrameNumber = 4096

var errNoFrame = errors.New("no frame there (walk jsframe lists them)")

// FrameID returns the frame at a frame pointer, or the function with a number in the list of
// WalkJSFrame: its digits are decimal.
func (d *Dump) FrameID(address uint64) (FrameID, error) {
	number, err := strconv.Atoi(strconv.FormatUint(address, 16))
	if err != nil || address >= maxFrameNumber || len(d.Threads()) == 0 {
		return FrameID{FP: address}, nil
	}
	frames := d.functionFrames(d.Threads()[0])
	if number >= len(frames) {
		return FrameID{}, fmt.Errorf("no frame has the number %d (walk jsframe lists %d, from 0)", number, len(frames))
	}
	return frames[number].id, nil
}

// A functionFrame is a JavaScript function on a stack.
type functionFrame struct {
	id FrameID
	stack.Frame
}

// functionFrames returns the JavaScript functions on a thread's stack, leaf first. Those
// that are inlined have the frame pointer of the function that they are inlined in.
func (d *Dump) functionFrames(t stack.Thread) []functionFrame {
	var list []functionFrame
	inlined := 0 // functions at the end of list whose frame is not known yet
	for _, f := range d.Stack(t).Frames {
		switch {
		case f.Kind != symbolize.JS:
			continue
		case f.Inlined && f.FP == 0:
			inlined++
			list = append(list, functionFrame{FrameID{One: true}, f})
			continue
		case f.FP == 0: // it is just being entered
			continue
		}
		for i := range inlined {
			list[len(list)-1-i].id = FrameID{FP: f.FP, Inlined: i + 1, One: true}
		}
		list, inlined = append(list, functionFrame{FrameID{FP: f.FP, One: true}, f}), 0
	}
	return list
}

// JSFrame returns a frame: several functions if some are inlined there, unless only one is
// wanted.
func (d *Dump) JSFrame(id FrameID, o StackOptions) (*StackText, error) {
	for _, t := range d.Threads() {
		r, ok := d.Region(t.Registers.SP)
		if !ok || id.FP < t.Registers.SP || id.FP >= d.StackEnd(r) {
			continue
		}
		frames := d.Stack(t).Frames
		at := slices.IndexFunc(frames, func(f stack.Frame) bool { return f.FP == id.FP })
		if at < 0 {
			break
		}
		end := at + 1
		for at > 0 && frames[at-1].Inlined && frames[at-1].FP == 0 {
			at--
		}
		if id.One {
			if at = end - 1 - id.Inlined; at < 0 {
				break
			}
			end = at + 1
		}
		return &StackText{TID: t.TID, Frames: d.frameTexts(frames[at:end], o), options: o}, nil
	}
	return nil, errNoFrame
}

// WalkJSFrame lists the frame pointers of the JavaScript functions on a thread's stack.
func (d *Dump) WalkJSFrame(t stack.Thread) *Frames {
	list := &Frames{Values{Values: []Indexed{}}}
	for i, f := range d.functionFrames(t) {
		list.Values.Values = append(list.Values.Values, Indexed{i, Brief{Address: Address(f.id.FP), Kind: "frame", Text: value.Text(f.Name)}})
	}
	return list
}

// Frames are frame pointers. Those of inlined functions are repeated.
type Frames struct{ Values }

// Addresses returns each frame pointer once.
func (f *Frames) Addresses() []v8.Value { return slices.Compact(f.Values.Addresses()) }

// frameAt returns a JavaScript function's frame; the innermost one for the zero FrameID.
func (d *Dump) frameAt(id FrameID) (stack.Frame, error) {
	for _, t := range d.Threads() {
		frames := d.functionFrames(t)
		at := slices.IndexFunc(frames, func(f functionFrame) bool {
			return id == FrameID{} || f.id.FP == id.FP && f.id.Inlined == id.Inlined
		})
		if at >= 0 {
			return frames[at].Frame, nil
		}
	}
	return stack.Frame{}, errors.New("no JavaScript frame (walk jsframe lists them)")
}
