package v8_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
	"ustack/symbolize/v8/value"
)

// A describer describes values as the program describes them.
type describer struct {
	h     *v8.Heap
	names map[uint64]string // of the held values, by address
}

// brief describes a value in one word, like the program's function of that name.
func (r *describer) brief(v v8.Value) string {
	if n, ok := r.h.Number(v); ok {
		return number(n)
	}
	if name, ok := r.names[v.Address()]; ok {
		return "@" + name
	}
	if text := r.h.Oddball(v); text != "" {
		return text
	}
	o, err := r.h.Object(v)
	if err != nil {
		return err.Error()
	}
	switch {
	case r.h.IsString(o):
		text, _, err := r.h.Text(v, -1)
		return strconv.Quote(text) + failure(err)
	case o.Map.Kind == "BigInt":
		text, err := r.h.BigInt(o)
		return text + "n" + failure(err)
	case o.Map.Kind == "Symbol":
		s, err := r.h.Symbol(o)
		return "Symbol(" + s.Description + ")" + failure(err)
	case r.h.IsFunction(o):
		f, err := r.h.Function(o)
		return f.Name + failure(err)
	}
	class, err := r.h.Class(o)
	return class + failure(err)
}

func failure(err error) string {
	if err == nil {
		return ""
	}
	return " (" + err.Error() + ")"
}

func number(n float64) string {
	if n == 0 && 1/n < 0 {
		return "-0"
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

func (r *describer) briefs(values []v8.Value) []any {
	got := []any{}
	for _, v := range values {
		got = append(got, r.brief(v))
	}
	return got
}

// describe returns what is read from a value, under the keys that truth has.
func (r *describer) describe(o v8.Object, truth map[string]any) (map[string]any, error) {
	read := map[string]func(v8.Object, map[string]any) (map[string]any, error){
		"object": func(v8.Object, map[string]any) (map[string]any, error) { return map[string]any{}, nil },
		"map":    r.collection, "set": r.collection, "weakmap": r.collection, "weakset": r.collection,
		"error": r.error, "captured": r.error, "weakref": r.weakRef, "registry": r.registry, "promise": r.promise,
		"bigint": r.bigint, "symbol": r.symbol, "wrapper": r.wrapper, "date": r.date, "regexp": r.regexp,
		"bound": r.bound, "proxy": r.proxy, "arguments": r.arguments, "function": r.function,
		"generator": r.generator, "arraybuffer": r.buffer, "typedarray": r.view, "dataview": r.view,
		"private": r.private, "closure": r.closure, "shape": r.shape, "string": r.text, "namespace": r.namespace,
	}[truth["kind"].(string)]
	if read == nil {
		return nil, fmt.Errorf("nothing reads a %v", truth["kind"])
	}
	got, err := read(o, truth)
	if got != nil {
		got["kind"] = truth["kind"]
	}
	return got, err
}

func (r *describer) collection(o v8.Object, _ map[string]any) (map[string]any, error) {
	entries := []any{}
	err := r.h.Entries(o, func(e v8.Entry) bool {
		got := []any{r.brief(e.Key)}
		if strings.HasSuffix(o.Map.Kind, "Map") {
			got = append(got, r.brief(e.Value))
		}
		entries = append(entries, got)
		return true
	})
	if strings.HasPrefix(o.Map.Kind, "JSWeak") {
		slices.SortFunc(entries, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return map[string]any{"entries": entries}, err
}

func (r *describer) weakRef(o v8.Object, _ map[string]any) (map[string]any, error) {
	v, err := r.h.Target(o)
	return map[string]any{"target": r.brief(v)}, err
}

// registry describes the active cell of a FinalizationRegistry.
func (r *describer) registry(o v8.Object, _ map[string]any) (map[string]any, error) {
	cells, err := r.h.FieldOf(o, "JSFinalizationRegistry", "active_cells")
	if err != nil {
		return nil, err
	}
	cell, err := r.h.Object(cells)
	if err != nil {
		return nil, err
	}
	target, err := r.h.Target(cell)
	if err != nil {
		return nil, err
	}
	holdings, err := r.h.FieldOf(cell, "WeakCell", "holdings")
	return map[string]any{"target": r.brief(target), "holdings": r.brief(holdings)}, err
}

func (r *describer) promise(o v8.Object, _ map[string]any) (map[string]any, error) {
	p, err := r.h.Promise(o)
	got := map[string]any{"state": p.State.String(), "value": "undefined", "reactions": []any{}}
	if p.State != v8.Pending {
		got["value"] = r.brief(p.Value)
	}
	for _, reaction := range p.Reactions {
		who := r.brief(reaction.Fulfill)
		if reaction.Generator != 0 {
			o, err := r.h.Object(reaction.Generator)
			if err != nil {
				return got, err
			}
			g, err := r.h.Generator(o)
			if err != nil {
				return got, err
			}
			who = "await in " + strings.TrimPrefix(r.brief(g.Function), "@")
		}
		got["reactions"] = append(got["reactions"].([]any), who)
	}
	return got, err
}

func (r *describer) error(o v8.Object, truth map[string]any) (map[string]any, error) {
	e, err := value.ReadError(r.h, o)
	if err != nil {
		return nil, err
	}
	class, err := r.h.Class(o)
	got := map[string]any{"name": e.Name, "message": e.Message, "stack": e.Stack, "class": class}
	if e.HasCause {
		got["cause"] = r.brief(e.Cause)
	}
	for key := range got {
		if _, ok := truth[key]; !ok {
			delete(got, key)
		}
	}
	return got, err
}

func (r *describer) bigint(o v8.Object, _ map[string]any) (map[string]any, error) {
	text, err := r.h.BigInt(o)
	return map[string]any{"text": text}, err
}

func (r *describer) symbol(o v8.Object, _ map[string]any) (map[string]any, error) {
	s, err := r.h.Symbol(o)
	got := map[string]any{"description": nil}
	if s.Described {
		got["description"] = s.Description
	}
	if s.Registered {
		got["shared"] = true
	}
	if s.WellKnown {
		got["wellKnown"] = true
	}
	return got, err
}

// private describes the fields with names like #name. V8 marks an object of a
// class with private methods with a symbol of its own.
func (r *describer) private(o v8.Object, _ map[string]any) (map[string]any, error) {
	properties, err := r.h.Properties(o)
	names := map[string]any{}
	for _, p := range properties {
		key, keyErr := r.h.Object(p.Key)
		if keyErr != nil || key.Map.Kind != "Symbol" {
			continue
		}
		s, symbolErr := r.h.Symbol(key)
		if symbolErr != nil || !s.PrivateName {
			continue
		}
		names[s.Description] = r.brief(p.Value)
	}
	return map[string]any{"names": names}, err
}

func (r *describer) wrapper(o v8.Object, _ map[string]any) (map[string]any, error) {
	v, err := r.h.Wrapped(o)
	return map[string]any{"value": r.brief(v)}, err
}

func (r *describer) date(o v8.Object, _ map[string]any) (map[string]any, error) {
	ms, err := r.h.Date(o)
	return map[string]any{"ms": number(ms)}, err
}

func (r *describer) regexp(o v8.Object, _ map[string]any) (map[string]any, error) {
	e, err := r.h.RegExp(o)
	return map[string]any{"source": e.Source, "flags": e.Flags}, err
}

func (r *describer) bound(o v8.Object, _ map[string]any) (map[string]any, error) {
	b, err := r.h.Bound(o)
	return map[string]any{"target": r.brief(b.Target), "this": r.brief(b.This), "args": r.briefs(b.Args)}, err
}

func (r *describer) proxy(o v8.Object, _ map[string]any) (map[string]any, error) {
	p, err := r.h.Proxy(o)
	if p.Revoked {
		return map[string]any{"revoked": true}, err
	}
	return map[string]any{"target": r.brief(p.Target), "handler": r.brief(p.Handler)}, err
}

func (r *describer) arguments(o v8.Object, _ map[string]any) (map[string]any, error) {
	var values []v8.Value
	err := r.h.Elements(o, func(e v8.Element) bool {
		values = append(values, e.Value)
		return true
	})
	return map[string]any{"values": r.briefs(values)}, err
}

func (r *describer) function(o v8.Object, truth map[string]any) (map[string]any, error) {
	c, err := r.h.Callable(o)
	if err != nil {
		return nil, err
	}
	is := c.Kind
	switch {
	case c.Builtin:
		is = "builtin"
	case c.API:
		is = "api"
	}
	got := map[string]any{"is": is}
	if _, ok := truth["source"]; ok {
		text, _, err := r.h.SourceText(o, 1<<20)
		if err != nil {
			return nil, err
		}
		got["source"] = text
	}
	return got, nil
}

func (r *describer) generator(o v8.Object, _ map[string]any) (map[string]any, error) {
	g, err := r.h.Generator(o)
	if err != nil {
		return nil, err
	}
	fn, err := r.h.Object(g.Function)
	if err != nil {
		return nil, err
	}
	f, err := r.h.Function(fn)
	if err != nil {
		return nil, err
	}
	source, err := code.ReadScript(r.h, f.Script, f.ScriptID)
	if err != nil {
		return nil, err
	}
	offset, err := code.Suspended(r.h, g)
	line, _ := source.Position(offset)
	return map[string]any{"function": f.Name, "state": g.State.String(), "line": float64(line)}, err
}

func (r *describer) bytes(address, n uint64) string {
	b, err := r.h.Bytes(address, n, 1<<20)
	return hex.EncodeToString(b) + failure(err)
}

func (r *describer) buffer(o v8.Object, _ map[string]any) (map[string]any, error) {
	b, err := r.h.Buffer(o)
	got := map[string]any{"bytes": r.bytes(b.Address, b.Length)}
	for key, is := range map[string]bool{"shared": b.Shared, "resizable": b.Resizable, "detached": b.Detached} {
		if is {
			got[key] = true
		}
	}
	if b.Resizable {
		got["max"] = float64(b.Max)
	}
	return got, err
}

func (r *describer) view(o v8.Object, truth map[string]any) (map[string]any, error) {
	v, err := r.h.View(o)
	got := map[string]any{"bytes": r.bytes(v.Address, v.Bytes)}
	if v.Type != "DataView" {
		got["type"], got["length"] = v.Type, float64(v.Length)
	}
	if _, ok := truth["buffer"]; ok {
		got["buffer"] = r.brief(v.Buffer)
	}
	return got, err
}

func (r *describer) closure(o v8.Object, truth map[string]any) (map[string]any, error) {
	scopes, err := r.h.Closure(o)
	got := []any{}
	for _, c := range scopes[:min(len(scopes), len(truth["scopes"].([]any)))] {
		variables := map[string]any{}
		for _, v := range c.Variables {
			if v.IsNumber {
				variables[v.Name] = number(v.Number)
			} else {
				variables[v.Name] = r.brief(v.Value)
			}
		}
		got = append(got, variables)
	}
	return map[string]any{"scopes": got}, err
}

func (r *describer) shape(o v8.Object, _ map[string]any) (map[string]any, error) {
	all, err := r.h.Properties(o)
	properties, elements := map[string]any{}, map[string]any{}
	for _, p := range all {
		name := p.Name
		if p.Symbol {
			name = "Symbol(" + name + ")"
		}
		switch {
		case p.Accessor && p.Getter != 0:
			properties[name] = []any{r.h.Oddball(p.Getter) != "null", r.h.Oddball(p.Setter) != "null"}
		case !p.Accessor:
			properties[name] = r.brief(p.Value)
		}
	}
	if err != nil {
		return nil, err
	}
	err = r.h.Elements(o, func(e v8.Element) bool {
		elements[strconv.Itoa(e.Index)] = number(e.Number)
		if !e.IsNumber {
			elements[strconv.Itoa(e.Index)] = r.brief(e.Value)
		}
		return true
	})
	return map[string]any{"properties": properties, "elements": elements}, err
}

func (r *describer) text(o v8.Object, _ map[string]any) (map[string]any, error) {
	text, length, err := r.h.Text(o.Ref(), -1)
	return map[string]any{"text": text, "length": float64(length)}, err
}

func (r *describer) namespace(o v8.Object, _ map[string]any) (map[string]any, error) {
	exports, err := r.h.Exports(o)
	got := map[string]any{}
	for _, e := range exports {
		got[e.Name] = r.brief(e.Value)
	}
	return map[string]any{"exports": got}, err
}
