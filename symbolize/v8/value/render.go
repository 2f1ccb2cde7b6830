package value

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"ustack/symbolize/v8"
)

// TextOptions say how a description is written.
type TextOptions struct {
	Addresses bool // of each value, before it
}

const (
	indent    = "    "
	lineWidth = 72 // of an array of primitives in one line
)

// Render writes n as mdb_v8's jsprint does: almost as JavaScript would.
func (n *Node) Render(w io.Writer, o TextOptions) error {
	r := &renderer{out: bufio.NewWriter(w), options: o}
	r.node(n, "")
	r.out.WriteByte('\n')
	return r.out.Flush()
}

// A renderer reports errors in out's Flush.
type renderer struct {
	out     *bufio.Writer
	options TextOptions
}

func (r *renderer) node(n *Node, margin string) {
	if r.options.Addresses && n.Address != 0 {
		fmt.Fprintf(r.out, "%s: ", n.Address)
	}
	switch n.Type {
	case "string":
		r.out.WriteString(v8.QuoteExact(n.Text))
		if n.More > 0 {
			fmt.Fprintf(r.out, "... (%d more)", n.More)
		}
		return
	case "array":
		r.list(n, margin)
		return
	}
	if n.Text != "" && len(n.Members) == 0 {
		r.out.WriteString(n.Text)
		return
	}
	if n.Type == "function" {
		r.out.WriteString(n.Text + " ")
	} else {
		r.title(n)
	}
	r.body(n, margin, "{", "}")
}

// title writes what precedes an object's members.
func (r *renderer) title(n *Node) {
	if n.Class != "" && n.Class != "Object" && n.Class != "Array" {
		r.out.WriteString(n.Class)
		if n.Length > 0 {
			fmt.Fprintf(r.out, "(%d)", n.Length)
		}
		r.out.WriteByte(' ')
	}
	if n.Text != "" {
		r.out.WriteString(n.Text + " ")
	}
}

func (r *renderer) list(n *Node, margin string) {
	if n.Class != "Array" {
		r.title(n)
	}
	if line, ok := r.inOneLine(n, len(margin)); ok {
		r.out.WriteString(line)
		return
	}
	r.body(n, margin, "[", "]")
}

// inOneLine returns a short array of primitives on one line.
func (r *renderer) inOneLine(n *Node, used int) (string, bool) {
	if len(n.Members) == 0 || n.More > 0 || n.Trouble != "" {
		return "", false
	}
	var parts []string
	next := 0
	for _, m := range n.Members {
		if m.Kind != "element" || len(m.Value.Members) > 0 || m.Value.Hidden || m.Value.Type == "array" {
			return "", false
		}
		index, err := strconv.Atoi(m.Name)
		if err != nil || index != next {
			return "", false
		}
		next++
		part := &strings.Builder{}
		one := &renderer{out: bufio.NewWriter(part), options: r.options}
		one.node(m.Value, "")
		one.out.Flush()
		parts = append(parts, part.String())
	}
	line := "[ " + strings.Join(parts, ", ") + " ]"
	return line, next == n.Length && used+len(line) <= lineWidth
}

// body writes the members of an object or of an array.
func (r *renderer) body(n *Node, margin, begin, end string) {
	switch {
	case n.Hidden:
		r.out.WriteString(begin + "..." + end)
		return
	case len(n.Members) == 0 && n.More == 0 && n.Trouble == "" && n.Length == 0:
		r.out.WriteString(begin + end)
		return
	}
	r.out.WriteString(begin + "\n")
	inner := margin + indent
	next := 0
	for _, m := range n.Members {
		if m.Kind == "element" {
			next = r.skip(m, next, n.Type == "array", inner)
		}
		r.out.WriteString(inner)
		r.key(m, n.Type == "array", inner)
		r.node(m.Value, inner)
		r.out.WriteString(",\n")
	}
	if n.Type == "array" && n.More == 0 && n.Length > next {
		fmt.Fprintf(r.out, "%s<%d holes>,\n", inner, n.Length-next)
	}
	if n.More > 0 {
		fmt.Fprintf(r.out, "%s... (%d more)\n", inner, n.More)
	}
	if n.Trouble != "" {
		fmt.Fprintf(r.out, "%s<bad: %s>\n", inner, strings.ReplaceAll(n.Trouble, "\n", "; "))
	}
	r.out.WriteString(margin + end)
}

// skip writes how many elements are missing before m, and returns the index after m's.
func (r *renderer) skip(m Member, next int, array bool, margin string) int {
	index, err := strconv.Atoi(m.Name)
	if err != nil {
		return next
	}
	if array && index > next {
		fmt.Fprintf(r.out, "%s<%d holes>,\n", margin, index-next)
	}
	return index + 1
}

// key writes a member's name, or what stands for it.
func (r *renderer) key(m Member, array bool, margin string) {
	switch {
	case m.Key != nil:
		r.node(m.Key, margin)
		r.out.WriteString(" => ")
	case m.Kind == "entry", m.Kind == "element" && array:
	case m.Kind == "private":
		r.out.WriteString(m.Name + ": ")
	case m.Kind == "symbol":
		r.out.WriteString("[" + m.Name + "]: ")
	case m.Kind == "slot":
		r.out.WriteString("<" + m.Name + ">: ")
	default:
		r.out.WriteString(v8.QuoteExact(m.Name) + ": ")
	}
}
