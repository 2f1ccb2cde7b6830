package value

import (
	"encoding/json"

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
		complete.Text = v8.MarshalExact(n.Text)
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
type Text = v8.ExactText

// MarshalJSON writes the member with its name.
func (m Member) MarshalJSON() ([]byte, error) {
	type plain Member
	return json.Marshal(struct {
		Name Text `json:"name"`
		plain
	}{Text(m.Name), plain(m)})
}
