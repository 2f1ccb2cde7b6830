package read

import (
	"fmt"

	"ustack/symbolize"
	"ustack/tools/profile"
)

// A stackvisNode is a function in the tree in stackvis's pages.
type stackvisNode struct {
	Unique   uint64                  `json:"svUnique"`
	Total    uint64                  `json:"svTotal"`
	Children map[string]stackvisNode `json:"svChildren"`
}

// readStackvisTree reads the tree in stackvis's pages: a node by each function's name,
// with the value of itself and those that it calls. The root has no name.
func readStackvisTree(all []byte, b *builder) error {
	var top map[string]stackvisNode
	if err := decode(all, &top); err != nil {
		return err
	}
	if root, ok := top[""]; ok && len(top) == 1 {
		top = root.Children
	}
	t := stackvisReader{b, map[string]symbolize.Frame{}}
	return t.add(top, nil)
}

// A stackvisReader adds the stacks of a tree.
type stackvisReader struct {
	*builder
	frames map[string]symbolize.Frame
}

// add adds what is in nodes, which callers call: root first. The depth of the tree is
// bounded by that of JSON.
func (r stackvisReader) add(nodes map[string]stackvisNode, callers []symbolize.Frame) error {
	for name, n := range nodes {
		f, ok := r.frames[name]
		if !ok {
			f = dtraceFrame(name)
			if f.Kind == symbolize.Native && f.Module == "" {
				f = label(name)
			}
			r.frames[name] = f
		}
		path := append(callers[:len(callers):len(callers)], f)
		leafFirst := make([]symbolize.Frame, 0, len(path))
		for i := range path {
			leafFirst = append(leafFirst, path[len(path)-1-i])
		}
		if err := r.builder.add(profile.Stack{Value: n.Unique, Frames: leafFirst}); err != nil {
			return fmt.Errorf("at %s: %w", quote(name), err)
		}
		if err := r.add(n.Children, path); err != nil {
			return err
		}
	}
	return nil
}
