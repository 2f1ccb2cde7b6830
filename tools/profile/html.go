package profile

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"html/template"
	"io"
	"maps"
	"slices"

	"ustack/symbolize"
	"ustack/tools/printable"
)

//go:embed html.tmpl
var htmlPage string

// What html.js reads: the call trees of each thread, in numbers.
type (
	htmlData struct {
		Kinds   []htmlKind    `json:"kinds"`
		Legend  []legendEntry `json:"legend"` // of kinds
		Tiers   []string      `json:"tiers"`
		Files   []string      `json:"files"`
		Modules []string      `json:"modules"`
		Names   []string      `json:"names"`            // by function, as shortName returns them
		Full    []string      `json:"full"`             // likewise, in full; empty if that is the same
		Frames  []int         `json:"frames"`           // five per function: kind, file, line, column, module; file and module are numbered from 1, 0 for none
		Threads []htmlThread  `json:"threads"`          // ordered by process and thread
		Native  bool          `json:"native"`           // all functions are shown at first
		Value   string        `json:"value"`            // the type of values, as "samples"
		Unit    string        `json:"unit"`             // their unit
		Change  *htmlChange   `json:"change,omitempty"` // if profiles are compared
		Min     float64       `json:"min"`              // percent of the total that a box needs in order to be drawn
	}
	htmlKind struct {
		Name string `json:"name"`
		Hue  hue    `json:"hue"`
	}
	htmlThread struct {
		PID  int    `json:"pid"`
		TID  int    `json:"tid"`
		Name string `json:"name"`
		// All has all functions, Program the program's own, with the native work
		// for each as one node; it is missing if there is no choice.
		All     *htmlTree `json:"all"`
		Program *htmlTree `json:"program,omitempty"`
	}
	htmlTree struct {
		// Nodes has three numbers for each node, callers first: the function,
		// the level from 0 for a stack's root, and the self samples.
		Nodes []uint64 `json:"nodes"`
		// Tiers has three numbers for each tier of a node: the node, the tier and
		// the samples.
		Tiers []uint64 `json:"tiers"`
		// Lines has three numbers for each executing line of a node: the node, the
		// line and the samples.
		Lines []uint64 `json:"lines,omitempty"`
		// Inlined has two numbers for each node that ran inlined in its caller: the
		// node and how many of its samples did.
		Inlined []uint64 `json:"inlined,omitempty"`
		// Was has two numbers for each node that was a leaf in the profile that this one is
		// compared with: the node, and its self samples there.
		Was []uint64 `json:"was,omitempty"`
	}
)

// writeHTML writes a page that draws the profile in a browser as a flame graph
// or icicle, by caller or by callee, for all threads or some, with zoom, search
// and a choice of colours; of several profiles, one at a time. It makes no requests.
func writeHTML(w io.Writer, all []*Profile, o Options) error {
	var pages []page
	for _, p := range all {
		pages = append(pages, page{Event: p.ValueType.noun(), Title: o.title(p), Summary: p.summary(), Losses: p.losses(), Data: newHTMLData(p, o)})
	}
	return writePages(w, pages)
}

// A page is what is shown of one profile.
type page struct {
	Event   string   `json:"-"` // what values are
	Title   string   `json:"title"`
	Summary string   `json:"summary"`
	Losses  string   `json:"losses"`
	Data    htmlData `json:"data"`
}

// writePages writes a page that shows the first of pages, and the others by choice.
func writePages(w io.Writer, pages []page) error {
	page, err := template.New("page").Parse(htmlPage)
	if err != nil {
		return err
	}
	// Marshal escapes <, > and &: no name ends the script element.
	first, err := json.Marshal(pages[0].Data)
	if err != nil {
		return err
	}
	values := map[string]any{
		"Title": pages[0].Title, "Summary": pages[0].Summary, "Losses": pages[0].Losses,
		"Style": template.CSS(htmlGraph.style), "Script": template.JS(htmlGraph.script), "Data": template.JS(first),
	}
	if len(pages) > 1 {
		others, err := json.Marshal(pages[1:])
		if err != nil {
			return err
		}
		var events []string
		for _, p := range pages {
			events = append(events, p.Event)
		}
		values["Events"], values["Others"] = events, template.JS(others)
	}
	b := bufio.NewWriter(w)
	if err := page.Execute(b, values); err != nil {
		return err
	}
	return b.Flush()
}

func newHTMLData(p *Profile, o Options) htmlData {
	d := newHTMLBuilder(p, o)
	d.addThreads(p, o)
	return d.htmlData
}

// newHTMLBuilder returns data without threads.
func newHTMLBuilder(p *Profile, o Options) *htmlBuilder {
	d := &htmlBuilder{
		htmlData: htmlData{Files: []string{}, Modules: []string{}, Names: []string{}, Full: []string{}, Frames: []int{}, Threads: []htmlThread{}, Min: o.MinPercent},
		frames:   map[symbolize.Frame]uint64{}, files: map[string]int{}, modules: map[string]int{},
	}
	values := p.ValueType.orSamples()
	d.Legend, d.Value, d.Unit = legend(), p.ValueType.noun(), values.Unit
	for k := symbolize.Native; k <= symbolize.Runtime; k++ {
		d.Kinds = append(d.Kinds, htmlKind{k.String(), kindHues[k]})
	}
	for t := symbolize.NoTier; t <= symbolize.Liftoff; t++ {
		d.Tiers = append(d.Tiers, t.String())
	}
	return d
}

// addThreads adds the trees of p's threads.
func (d *htmlBuilder) addThreads(p *Profile, o Options) {
	for _, t := range p.rooted().threads() {
		d.Threads = append(d.Threads, htmlThread{PID: t.PID, TID: t.TID, Name: t.Name, All: d.tree(t.Stacks)})
	}
	if p.jsOnly || !p.hasProgram() {
		d.Native = true
		return
	}
	d.Native = o.Native
	for i, t := range p.folded().rooted().threads() { // the same threads
		d.Threads[i].Program = d.tree(t.Stacks)
	}
}

// An htmlBuilder assigns numbers to what repeats.
type htmlBuilder struct {
	htmlData
	frames         map[symbolize.Frame]uint64
	files, modules map[string]int
}

// tree returns stacks as a tree.
func (b *htmlBuilder) tree(stacks []Stack) *htmlTree { return b.nodes(newTree(stacks)) }

// nodes returns a tree in numbers.
func (b *htmlBuilder) nodes(root *node) *htmlTree {
	t := &htmlTree{Nodes: []uint64{}, Tiers: []uint64{}}
	for _, c := range root.children {
		b.add(t, c, 0)
	}
	return t
}

// add appends n and everything it calls to a tree.
func (b *htmlBuilder) add(t *htmlTree, n *node, level uint64) {
	id := uint64(len(t.Nodes) / 3)
	t.Nodes = append(t.Nodes, b.frame(n.frame), level, n.self)
	for tier := symbolize.Interpreted; tier <= symbolize.Liftoff; tier++ {
		if count := n.tiers[tier]; count > 0 {
			t.Tiers = append(t.Tiers, id, uint64(tier), count)
		}
	}
	for _, line := range slices.Sorted(maps.Keys(n.calls)) {
		t.Lines = append(t.Lines, id, uint64(line), n.calls[line])
	}
	if n.inlined > 0 {
		t.Inlined = append(t.Inlined, id, n.inlined)
	}
	if n.wasSelf > 0 {
		t.Was = append(t.Was, id, n.wasSelf)
	}
	for _, c := range n.children {
		b.add(t, c, level+1)
	}
}

func (b *htmlBuilder) frame(f symbolize.Frame) uint64 {
	id, ok := b.frames[f]
	if !ok {
		id = uint64(len(b.frames))
		b.frames[f] = id
		short, full := shortName(f), name(f)
		if full == short {
			full = ""
		}
		b.Names, b.Full = append(b.Names, short), append(b.Full, full)
		b.Frames = append(b.Frames, int(f.Kind),
			number(b.files, &b.Files, f.File), f.Line, f.Column, number(b.modules, &b.Modules, f.Module))
	}
	return id
}

// number returns the position of s in list, from 1, and adds s if it is
// missing; it returns 0 for an empty string. ids has the positions of list's
// strings.
func number(ids map[string]int, list *[]string, s string) int {
	if s == "" {
		return 0
	}
	id, ok := ids[s]
	if !ok {
		*list = append(*list, printable.String(s))
		id = len(*list)
		ids[s] = id
	}
	return id
}
