package jscore

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/value"
)

// A NodeInfo describes a Node.js process and how it was started.
type NodeInfo struct {
	PID         int         `json:"pid"`
	Node        string      `json:"node"`
	V8          string      `json:"v8"`
	Platform    string      `json:"platform,omitempty"`
	Versions    []NamedText `json:"versions,omitempty"` // of its components
	CommandLine []string    `json:"command_line"`       // as the kernel passed it
	Argv        []string    `json:"argv"`               // process.argv
	ExecArgv    []string    `json:"exec_argv"`          // node's own flags
	Environment []string    `json:"environment,omitempty"`
	Process     Address     `json:"process,omitempty"` // the process object
	Trouble     []string    `json:"trouble,omitempty"`
}

// A NamedText is a name with a text.
type NamedText struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// NodeInfo describes the process, with its environment if requested, which may hold
// secrets. Without a graph it reports what needs no JavaScript objects.
func (d *Dump) NodeInfo(g *Graph, environment bool) *NodeInfo {
	n := &NodeInfo{PID: d.Info().PID, CommandLine: []string{}, Argv: []string{}, ExecArgv: []string{}}
	if d.v8.Binary != nil {
		n.Node, n.V8 = d.v8.Binary.NodeVersion, d.v8.Binary.Version.String()
	}
	arguments, err := d.Arguments()
	n.CommandLine = n.keep(arguments, err)
	if environment {
		variables, err := d.Environment()
		n.Environment = n.keep(variables, err)
	}
	if g == nil {
		return n
	}
	process, ok := d.processObject(g)
	if !ok {
		n.Trouble = append(n.Trouble, "no process object in the heap")
		return n
	}
	n.Process = Address(process.Ref())
	n.Argv, n.ExecArgv = d.ownTexts(process, "argv"), d.ownTexts(process, "execArgv")
	n.Platform = strings.TrimSpace(d.ownText(process, "platform") + " " + d.ownText(process, "arch"))
	if versions, ok, _ := d.v8.Heap.Own(process, "versions"); ok {
		if o, err := d.v8.Heap.Object(versions); err == nil {
			n.Versions = d.texts(o)
		}
	}
	return n
}

func (n *NodeInfo) keep(texts []string, err error) []string {
	if err != nil {
		n.Trouble = append(n.Trouble, err.Error())
	}
	return append([]string{}, texts...)
}

// processObject finds the object that programs know as process. If there are several
// isolates, it is that of the isolate whose objects come first.
func (d *Dump) processObject(g *Graph) (v8.Object, bool) {
	for id := range heap.ID(g.Len()) {
		o := g.Object(id)
		if !d.v8.Heap.IsReceiver(o) || !g.IsLive(id) {
			continue
		}
		if class, err := d.v8.Heap.Class(o); err != nil || class != "process" {
			continue
		}
		if _, ok, _ := d.v8.Heap.Own(o, "versions"); ok {
			return o, true
		}
	}
	return v8.Object{}, false
}

// texts returns the properties of o whose values are strings.
func (d *Dump) texts(o v8.Object) []NamedText {
	var list []NamedText
	properties, _ := d.v8.Heap.Properties(o) // the rest is worth reporting
	for _, p := range properties {
		if text := value.BriefText(d.v8.Heap, p.Value); text != "" && !p.Accessor {
			list = append(list, NamedText{p.Name, text})
		}
	}
	return list
}

func (d *Dump) ownText(o v8.Object, name string) string {
	v, _, _ := d.v8.Heap.Own(o, name)
	return value.BriefText(d.v8.Heap, v)
}

// maxArgument bounds the characters shown of an argument.
const maxArgument = 1 << 10

// ownTexts returns the strings of an array that is a property of o.
func (d *Dump) ownTexts(o v8.Object, name string) []string {
	list := []string{}
	v, ok, _ := d.v8.Heap.Own(o, name)
	if !ok {
		return list
	}
	array, err := d.v8.Heap.Object(v)
	if err != nil {
		return list
	}
	_ = d.v8.Heap.Elements(array, func(e v8.Element) bool { // the rest is worth reporting
		text, _, _ := d.v8.Heap.Text(e.Value, maxArgument)
		list = append(list, text)
		return len(list) < maxListed
	})
	return list
}

// WriteText writes a line for each known fact.
func (n *NodeInfo) WriteText(w io.Writer) error {
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-13s %s\n", name+":", text)
		}
	}
	line("process", fmt.Sprint(n.PID))
	line("node", n.Node)
	line("V8", n.V8)
	line("platform", n.Platform)
	line("command line", shellWords(n.CommandLine))
	line("argv", shellWords(n.Argv))
	line("execArgv", shellWords(n.ExecArgv))
	var versions []string
	for _, v := range n.Versions {
		versions = append(versions, v.Name+" "+v.Text)
	}
	line("versions", strings.Join(versions, ", "))
	for _, variable := range slices.Sorted(slices.Values(n.Environment)) {
		line("environment", variable)
	}
	for _, trouble := range n.Trouble {
		line("<bad>", trouble)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// shellWords joins words as a shell would read them.
func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		if word == "" || strings.ContainsAny(word, " \t\n'\"\\$`|&;<>()*?[]#~!{}") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		quoted[i] = word
	}
	return strings.Join(quoted, " ")
}

// Addresses returns the address of the process object.
func (n *NodeInfo) Addresses() []v8.Value {
	if n.Process == 0 {
		return nil
	}
	return []v8.Value{v8.Value(n.Process)}
}
