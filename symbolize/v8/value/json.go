package value

import (
	"encoding/json"
	"strconv"

	"ustack/symbolize/v8"
)

// MarshalJSON writes the node with its lone surrogates, and with what it has none of: an empty
// string has a text, and an empty array a length and members.
func (n *Node) MarshalJSON() ([]byte, error) {
	type plain Node
	complete := struct {
		*plain
		Text    json.RawMessage `json:"text,omitempty"`
		Length  *int            `json:"length,omitempty"`
		Members *[]Member       `json:"members,omitempty"`
	}{plain: (*plain)(n)}
	if n.Text != "" || n.Type == "string" {
		complete.Text = exactJSON(n.Text)
	}
	if n.Length != 0 || n.sized {
		complete.Length = &n.Length
	}
	if len(n.Members) > 0 || n.listed && (n.Type == "array" || n.Type == "object" && n.Text == "") {
		members := append([]Member{}, n.Members...)
		complete.Members = &members
	}
	return json.Marshal(complete)
}

// A Text is exact text, which keeps its lone surrogates in JSON.
type Text string

// MarshalJSON writes the text as a string.
func (t Text) MarshalJSON() ([]byte, error) { return exactJSON(string(t)), nil }

// exactJSON writes exact text as a string of JSON.
func exactJSON(text string) []byte {
	inside := func(text string) string {
		b, _ := json.Marshal(text) // a string has a form
		return string(b[1 : len(b)-1])
	}
	return []byte(`"` + v8.EscapeSurrogates(text, inside) + `"`)
}

// quoteExact quotes exact text as JavaScript does.
func quoteExact(text string) string {
	return `"` + v8.EscapeSurrogates(text, func(text string) string {
		quoted := strconv.Quote(text)
		return quoted[1 : len(quoted)-1]
	}) + `"`
}
