package value

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"ustack/symbolize/v8"
)

// MaxBrief is how many characters are shown of a string next to its address, as in mdb_v8.
const MaxBrief = 255

// A Brief is a short description of a V8 value.
type Brief struct {
	Address Address `json:"address"`         // tagged; for a small integer, its word
	Kind    string  `json:"kind"`            // V8's class: "JSObject", "ConsString", "SMI"
	Class   string  `json:"class,omitempty"` // of a JavaScript object: its constructor
	Text    Text    `json:"text,omitempty"`  // of a string, number, symbol, function, script …
	Weak    bool    `json:"weak,omitempty"`
}

// BriefOf describes v. What cannot be read has the kind "<bad>".
func BriefOf(h *v8.Heap, v v8.Value) Brief {
	b := Brief{Address: Address(v), Kind: "SMI", Weak: v.IsWeak()}
	if n, ok := v.Smi(); ok {
		b.Text = Text(strconv.Itoa(n))
		return b
	}
	if !v.IsObject() {
		if b.Kind = "<bad>"; uint32(v) == 3 {
			b.Kind = "cleared weak reference"
		}
		return b
	}
	o, err := h.Object(v.Strong())
	if err != nil {
		b.Kind = "<bad>"
		return b
	}
	b.Kind = o.Map.KindName()
	b.describe(h, o)
	return b
}

// describe sets Class and Text.
func (b *Brief) describe(h *v8.Heap, o v8.Object) {
	switch {
	case h.IsString(o):
		b.Text = Text(BriefText(h, o.Ref()))
	case h.IsFunction(o):
		if f, err := h.Function(o); err == nil {
			b.Text = Text(f.String())
		}
	case o.Map.Kind == "JSBoundFunction":
		if target, err := h.Object(Unbound(h, o.Ref())); err == nil && h.IsFunction(target) {
			f, _ := h.Function(target) // what cannot be read has no name
			b.Text = Text("bound " + f.String())
		}
	case h.IsReceiver(o):
		b.Class, _ = h.Class(o) // empty if it cannot be read
	default:
		b.describeInternal(h, o)
	}
}

func (b *Brief) describeInternal(h *v8.Heap, o v8.Object) {
	switch o.Map.Kind {
	case "HeapNumber":
		if n, ok := h.Number(o.Ref()); ok {
			b.Text = Text(FormatNumber(n))
		}
	case "Oddball", "Hole":
		b.Text = Text(h.Oddball(o.Ref()))
	case "BigInt":
		if text, err := h.BigInt(o); err == nil {
			b.Text = Text(text)
		}
	case "Symbol":
		if name, err := h.FieldOf(o, "Symbol", "description"); err == nil {
			b.Text = Text(BriefText(h, name))
		}
	case "Script":
		if name, err := h.FieldOf(o, "Script", "name"); err == nil {
			b.Text = Text(BriefText(h, name))
		}
	case "SharedFunctionInfo":
		if f, err := h.Shared(o); err == nil {
			b.Text = Text(f.String())
		}
	}
}

// BriefText returns the beginning of a string as exact text, empty if v is not a string.
func BriefText(h *v8.Heap, v v8.Value) string {
	o, err := h.Object(v)
	if err != nil || !h.IsString(o) {
		return ""
	}
	text, length, err := h.Exact(v, MaxBrief)
	if err != nil {
		return "<bad>"
	}
	if length > MaxBrief {
		text += "…"
	}
	return text
}

// String returns what mdb_v8 shows in brackets: "JSObject: Server", "SMI: value = 1".
func (b Brief) String() string {
	text := b.Kind
	switch {
	case b.Kind == "SMI":
		return "SMI: value = " + string(b.Text)
	case b.Kind == "JSFunction", b.Kind == "JSBoundFunction", b.Kind == "HeapNumber", b.Kind == "SharedFunctionInfo":
		text += ": " + string(b.Text)
	case b.Kind == "Symbol", b.Kind == "Oddball", b.Kind == "Hole", strings.HasSuffix(b.Kind, "String"), b.Text != "":
		text += ": " + v8.QuoteExact(string(b.Text))
	case b.Class != "" && b.Kind != "JS"+b.Class:
		text += ": " + b.Class
	}
	if b.Weak {
		text = "weak " + text
	}
	return text
}

// WriteText writes the value's word and description.
func (b Brief) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "0x%s: %s\n", b.Address, b)
	return err
}

// Addresses returns the value itself.
func (b Brief) Addresses() []v8.Value { return []v8.Value{v8.Value(b.Address)} }
