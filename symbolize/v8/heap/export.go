package heap

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"ustack/symbolize/v8"
)

// Exported describes what a snapshot holds.
type Exported struct {
	Nodes   int `json:"nodes"`
	Edges   int `json:"edges"`
	Strings int `json:"strings"`
}

// Bounds on the text in a snapshot: V8's own has at most 1024 characters of a string.
const (
	maxExportText  = 1 << 10 // characters of one string
	maxExportTexts = 1 << 28 // bytes in all; strings beyond that are named only by their kind
)

// snapshotMeta is the head of V8's snapshot format, as of V8 12; readers rely on it.
const snapshotMeta = `{"snapshot":{"meta":{` +
	`"node_fields":["type","name","id","self_size","edge_count","detachedness"],` +
	`"node_types":[["hidden","array","string","object","code","closure","regexp","number","native","synthetic",` +
	`"concatenated string","sliced string","symbol","bigint","object shape"],"string","number","number","number","number"],` +
	`"edge_fields":["type","name_or_index","to_node"],` +
	`"edge_types":[["context","element","property","internal","hidden","shortcut","weak"],"string_or_number","node"],` +
	`"trace_function_info_fields":[],"trace_node_fields":[],"sample_fields":[],"location_fields":[]},`

const nodeFields = 6

// Numbers of snapshotMeta's node types.
const (
	nodeHidden = iota
	nodeArray
	nodeString
	nodeObject
	nodeCode
	nodeClosure
	nodeRegExp
	nodeNumber
	_
	nodeSynthetic
	nodeCons
	nodeSliced
	nodeSymbol
	nodeBigInt
	nodeShape
)

// Numbers of snapshotMeta's edge types.
const (
	edgeContext = iota
	edgeElement
	edgeProperty
	edgeInternal
	edgeHidden
	edgeShortcut
)

// Nodes before those of objects: Chrome's start node, and the roots.
const syntheticNodes = 2

// Export writes the live objects as a heap snapshot that Chrome DevTools opens. Until it
// is done, the contents are in files in the directory for temporary files, which take as
// much room as the snapshot.
func (g *Graph) Export(ctx context.Context, w io.Writer) (_ *Exported, err error) {
	e := &exporter{
		Graph: g, ordinal: make([]uint32, g.Len()), texts: map[string]int{}, functions: map[v8.Value]string{},
		slots: map[uint32]bool{},
	}
	e.shared, _ = g.heap.Offset("JSFunction", "shared") // every V8 has it
	for _, part := range []**filePart{&e.nodes, &e.edges, &e.strings} {
		if *part, err = newPart(); err != nil {
			return nil, fmt.Errorf("export: %w", err)
		}
		defer func() { err = errors.Join(err, (*part).file.Close()) }()
	}
	if err := e.collect(ctx); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	e.written.Strings = len(e.texts)
	if err := e.write(w); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	return &e.written, nil
}

// A filePart is a part of a snapshot, comma-separated numbers or strings, in an unnamed file.
type filePart struct {
	file *os.File
	out  *bufio.Writer
	line []byte
}

func newPart() (*filePart, error) {
	file, err := os.CreateTemp("", "snapshot-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &filePart{file: file, out: bufio.NewWriterSize(file, pageAlign)}, nil
}

// add adds numbers. Errors are reported by copyTo.
func (p *filePart) add(first bool, numbers ...uint64) {
	p.line = p.line[:0]
	for _, n := range numbers {
		if !first {
			p.line = append(p.line, ',')
		}
		first = false
		p.line = strconv.AppendUint(p.line, n, 10)
	}
	p.out.Write(append(p.line, '\n'))
}

// quote adds a string. Errors in writing are reported by copyTo.
func (p *filePart) quote(first bool, s string) {
	quoted := v8.MarshalExact(s)
	if !first {
		p.out.WriteString(",\n")
	}
	p.out.Write(quoted)
}

// copyTo writes everything that was added.
func (p *filePart) copyTo(w io.Writer) error {
	if err := p.out.Flush(); err != nil {
		return err
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.Copy(w, p.file)
	return err
}

// An exporter creates a snapshot.
type exporter struct {
	*Graph
	nodes, edges, strings *filePart

	ordinal   []uint32            // by ID: of the object's node
	texts     map[string]int      // numbers
	shared    int                 // offset of a closure's definition
	functions map[v8.Value]string // names by definition
	slots     map[uint32]bool     // taken by pages, for numbering their objects
	page      uint64              // of the current object
	slot      uint32              // the page's
	size      int                 // bytes of texts
	count     uint64              // edges of the current node
	written   Exported
}

// collect creates the nodes and the edges.
func (e *exporter) collect(ctx context.Context) error {
	next := uint32(syntheticNodes)
	for id := range ID(e.Len()) {
		if e.IsLive(id) {
			e.ordinal[id] = next
			next++
		}
	}
	e.synthetic()
	for id := range ID(e.Len()) {
		if id%often == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if e.IsLive(id) {
			e.object(id)
		}
	}
	return nil
}

// synthetic adds Chrome's start node and the node of the roots.
func (e *exporter) synthetic() {
	for id := range ID(e.Len()) {
		if e.IsLive(id) && e.Map(id).Kind == "JSGlobalObject" {
			e.edge(edgeShortcut, e.text("global"), id)
		}
	}
	e.edges.add(e.written.Edges == 0, edgeElement, 1, nodeFields)
	e.written.Edges++
	e.count++
	e.node(nodeSynthetic, "", 1, 0)
	for i, r := range e.Roots {
		e.edge(edgeElement, uint64(i), r.Object)
	}
	e.node(nodeSynthetic, "(GC roots)", 3, 0)
}

// node adds a node, after its edges.
func (e *exporter) node(kind uint64, name string, id, size uint64) {
	e.nodes.add(e.written.Nodes == 0, kind, e.text(name), id, size, e.count, 0)
	e.written.Nodes++
	e.count = 0
}

// edge adds an edge of the next node.
func (e *exporter) edge(kind, nameOrIndex uint64, to ID) {
	if !e.IsLive(to) {
		return
	}
	e.edges.add(e.written.Edges == 0, kind, nameOrIndex, uint64(e.ordinal[to])*nodeFields)
	e.written.Edges++
	e.count++
}

// text returns the number of a text.
func (e *exporter) text(s string) uint64 {
	if n, ok := e.texts[s]; ok {
		return uint64(n)
	}
	n := len(e.texts)
	e.strings.quote(n == 0, s)
	e.texts[s] = n
	e.size += len(s)
	return uint64(n)
}

// write writes the parts in the order in which Chrome reads them.
func (e *exporter) write(w io.Writer) error {
	out := bufio.NewWriterSize(w, pageAlign)
	fmt.Fprintf(out, `%s"node_count":%d,"edge_count":%d,"trace_function_count":0},`, snapshotMeta, e.written.Nodes, e.written.Edges)
	out.WriteString("\n\"nodes\":[")
	if err := e.nodes.copyTo(out); err != nil {
		return err
	}
	out.WriteString("],\n\"edges\":[")
	if err := e.edges.copyTo(out); err != nil {
		return err
	}
	out.WriteString("],\n\"trace_function_infos\":[],\n\"trace_tree\":[],\n\"samples\":[],\n\"locations\":[],\n\"strings\":[")
	if err := e.strings.copyTo(out); err != nil {
		return err
	}
	out.WriteString("]}\n")
	return out.Flush()
}
