package nodejs

import (
	"strings"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/value"
)

// An Info describes a Node.js process and how it was started.
type Info struct {
	Node        string        `json:"node"`
	V8          string        `json:"v8"`
	Platform    string        `json:"platform,omitempty"`
	Versions    []NamedText   `json:"versions,omitempty"` // of its components
	CommandLine []string      `json:"command_line"`       // as the kernel passed it
	Argv        []string      `json:"argv"`               // process.argv
	ExecArgv    []string      `json:"exec_argv"`          // node's own flags
	Environment []string      `json:"environment,omitempty"`
	Process     value.Address `json:"process,omitempty"` // the process object
	Trouble     []string      `json:"trouble,omitempty"`
}

// A NamedText is a name with a text.
type NamedText struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Info describes the process, with its environment if requested, which may hold
// secrets. Without a graph it reports what needs no JavaScript objects.
func (p *Process) Info(g *heap.Graph, environment bool) *Info {
	n := &Info{CommandLine: []string{}, Argv: []string{}, ExecArgv: []string{}}
	if p.v8.Binary != nil {
		n.Node, n.V8 = p.v8.Binary.NodeVersion, p.v8.Binary.Version.String()
	}
	arguments, err := p.space.Arguments()
	n.CommandLine = n.keep(arguments, err)
	if environment {
		variables, err := p.space.Environment()
		n.Environment = n.keep(variables, err)
	}
	if g == nil {
		return n
	}
	process, ok := p.processObject(g)
	if !ok {
		n.Trouble = append(n.Trouble, "no process object in the heap")
		return n
	}
	n.Process = value.Address(process.Ref())
	n.Argv, n.ExecArgv = p.ownTexts(process, "argv"), p.ownTexts(process, "execArgv")
	n.Platform = strings.TrimSpace(p.ownText(process, "platform") + " " + p.ownText(process, "arch"))
	if versions, ok, _ := p.v8.Heap.Own(process, "versions"); ok {
		if o, err := p.v8.Heap.Object(versions); err == nil {
			n.Versions = p.texts(o)
		}
	}
	return n
}

func (n *Info) keep(texts []string, err error) []string {
	if err != nil {
		n.Trouble = append(n.Trouble, err.Error())
	}
	return append([]string{}, texts...)
}

// processObject finds the object that programs know as process. If there are several
// isolates, it is that of the isolate whose objects come first.
func (p *Process) processObject(g *heap.Graph) (v8.Object, bool) {
	for id := range heap.ID(g.Len()) {
		o := g.Object(id)
		if !p.v8.Heap.IsReceiver(o) || !g.IsLive(id) {
			continue
		}
		if class, err := p.v8.Heap.Class(o); err != nil || class != "process" {
			continue
		}
		if _, ok, _ := p.v8.Heap.Own(o, "versions"); ok {
			return o, true
		}
	}
	return v8.Object{}, false
}

// texts returns the properties of o whose values are strings.
func (p *Process) texts(o v8.Object) []NamedText {
	var list []NamedText
	properties, _ := p.v8.Heap.Properties(o) // the rest is worth reporting
	for _, property := range properties {
		if text := value.BriefText(p.v8.Heap, property.Value); text != "" && !property.Accessor {
			list = append(list, NamedText{property.Name, text})
		}
	}
	return list
}

func (p *Process) ownText(o v8.Object, name string) string {
	v, _, _ := p.v8.Heap.Own(o, name)
	return value.BriefText(p.v8.Heap, v)
}

// maxArgument bounds the characters shown of an argument.
const maxArgument = 1 << 10

// ownTexts returns the strings of an array that is a property of o.
func (p *Process) ownTexts(o v8.Object, name string) []string {
	list := []string{}
	v, ok, _ := p.v8.Heap.Own(o, name)
	if !ok {
		return list
	}
	array, err := p.v8.Heap.Object(v)
	if err != nil {
		return list
	}
	_ = p.v8.Heap.Elements(array, func(e v8.Element) bool { // the rest is worth reporting
		text, _, _ := p.v8.Heap.Text(e.Value, maxArgument)
		list = append(list, text)
		return len(list) < maxListed
	})
	return list
}
