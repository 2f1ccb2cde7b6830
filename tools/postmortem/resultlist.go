package postmortem

import (
	"errors"

	"ustack/symbolize/v8"
)

// maxInstances bounds the objects that are listed.
const maxInstances = 1 << 24

// Instances lists the objects that a census with these options counts.
func (g *Graph) Instances(o CensusOptions) *Values {
	list := &Values{Values: []Indexed{}}
	for id := range g.Select(o) {
		if !g.list(list, id) {
			break
		}
	}
	return list
}

// AllAlike lists the objects that a census counts together with the object v.
func (g *Graph) AllAlike(v v8.Value, o CensusOptions) (*Values, error) {
	id, ok := g.Find(v.Address())
	if !ok {
		return nil, errors.New("no object begins there (whatis says what does)")
	}
	list := &Values{Address: Address(v), Values: []Indexed{}}
	for other := range g.Alike(id, o) {
		if !g.list(list, other) {
			break
		}
	}
	return list, nil
}

// list adds an object to a list, which may be full then.
func (g *Graph) list(to *Values, id ID) bool {
	o := g.Object(id)
	to.Values = append(to.Values, Indexed{len(to.Values), Brief{Address: Address(o.Ref()), Kind: kindName(o)}})
	return len(to.Values) < maxInstances
}
