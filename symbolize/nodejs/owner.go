package nodejs

import (
	"cmp"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/value"
)

// Fields of objects of Node.js's scripts; in brackets the descriptions of symbols.
const (
	ownerField = "[owner_symbol]" // of a handle's object: what it belongs to (lib/internal/async_hooks.js)
	pathField  = "[kPath]"        // of a ClientRequest, instead of "path" since Node.js 26
)

// maxPurpose bounds the characters of a request's method, host and path.
const maxPurpose = 1 << 8

// Roles of an Owner.
const (
	Listens  = "listens"  // a server
	Accepted = "accepted" // by a server
	Connects = "connects" // to a server
)

// An Owner is the object of Node.js's API that a handle belongs to: a Server, a Socket, a
// ChildProcess …
type Owner struct {
	value.Brief
	Role    string       `json:"role,omitempty"`    // of a socket of TCP or a pipe
	Server  *value.Brief `json:"server,omitempty"`  // that has accepted it
	Host    string       `json:"host,omitempty"`    // that it connects to, as the program named it
	Request string       `json:"request,omitempty"` // of HTTP, that is under way: "GET /path"
	HTTP    *value.Brief `json:"http,omitempty"`    // the ServerResponse or ClientRequest of that
}

// addOwner adds the owner of a handle.
func (p *Process) addOwner(o *Wrap) {
	h := p.v8.Heap
	if h == nil || !v8.Value(o.Object.Address).IsObject() {
		return
	}
	handle, err := h.Object(v8.Value(o.Object.Address))
	if err != nil {
		return
	}
	if owner, ok := fieldsOf(h, handle).object(h, ownerField); ok {
		o.Owner = ownerOf(h, owner, o.Type)
	}
}

// ownerOf describes the owner of a handle of one of libuv's types.
func ownerOf(h *v8.Heap, o v8.Object, handle string) *Owner {
	owner := &Owner{Brief: value.BriefOf(h, o.Ref())}
	if handle != "tcp" && handle != "pipe" {
		return owner
	}
	fields := fieldsOf(h, o)
	_, listens := fields["_connections"]
	_, connects := fields["connecting"]
	server, accepted := fields.object(h, "server")
	switch {
	case listens:
		owner.Role = Listens
	case accepted:
		owner.Role = Accepted
		brief := value.BriefOf(h, server.Ref())
		owner.Server = &brief
	case connects && handle == "tcp":
		owner.Role = Connects
		owner.Host = fields.text(h, "_host")
	}
	if message, ok := fields.object(h, "_httpMessage"); ok {
		brief := value.BriefOf(h, message.Ref())
		owner.HTTP = &brief
		owner.Request = requestOf(h, message)
	}
	return owner
}

// requestOf returns the method and the place of a ClientRequest, or of the request that a
// ServerResponse answers; "" if they are not known.
func requestOf(h *v8.Heap, message v8.Object) string {
	fields := fieldsOf(h, message)
	if request, ok := fields.object(h, "req"); ok {
		fields = fieldsOf(h, request)
	}
	method := fields.text(h, "method")
	path := cmp.Or(fields.text(h, "path"), fields.text(h, pathField), fields.text(h, "url"))
	if method == "" || path == "" {
		return ""
	}
	return method + " " + path
}

// fields are the values of an object's own properties, by name; those of symbols by their
// descriptions in brackets.
type fields map[string]v8.Value

func fieldsOf(h *v8.Heap, o v8.Object) fields {
	properties, _ := h.Properties(o) // what cannot be read is not there
	all := make(fields, len(properties))
	for _, property := range properties {
		name := property.Name
		if property.Symbol {
			name = "[" + name + "]"
		}
		if !property.Accessor {
			all[name] = property.Value
		}
	}
	return all
}

// object returns the JavaScript object in a field; ok is false for null and undefined.
func (f fields) object(h *v8.Heap, name string) (o v8.Object, ok bool) {
	o, err := h.Object(f[name])
	return o, err == nil && h.IsReceiver(o)
}

// text returns the string in a field, cut; "" if it has none.
func (f fields) text(h *v8.Heap, name string) string {
	o, err := h.Object(f[name])
	if err != nil || !h.IsString(o) {
		return ""
	}
	text, _, err := h.Text(f[name], maxPurpose)
	if err != nil {
		return ""
	}
	return text
}
