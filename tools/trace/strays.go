package trace

import (
	"errors"
	"slices"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/symbolize/process"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
)

// A strayKey is a place in code that its function does not refer to: V8 entered it in
// the middle of a loop, or has compiled the function again since it was called.
type strayKey struct {
	function, pc uint64
	check        uint64 // hash of the code around pc
}

func newStrayKey(function, position uint64) strayKey {
	return strayKey{function, position & (1<<pcEnd - 1), position & (1<<formShift - 1) >> pcEnd}
}

type stray struct {
	table  *codeTable
	offset int
	tier   symbolize.Tier // of the code
}

// findsStrays reports whether all code that its function does not refer to is in
// mappings that are known.
func (g *target) findsStrays(positions []uint64) bool {
	return !slices.ContainsFunc(positions, func(p uint64) bool {
		return formOf(p) == bpf.TracePositionFormPOSITION_PC && g.find(newStrayKey(0, p).pc) == nil
	})
}

// findStray finds the code at a pc of a function that does not refer to it.
func (t *Table) findStray(g *target, owner uint64, key strayKey) {
	if _, ok := t.positions.strays[key]; ok {
		return
	}
	if waits := t.positions.moved[key.function]; waits != nil {
		t.positions.await(waits, key)
		return
	}
	fn, ok := t.functions[key.function]
	mapping := g.find(key.pc)
	if !ok || mapping == nil {
		return
	}
	offset, tier := 0, symbolize.NoTier
	table, err := t.readTable(g, owner, fn, func(f *code.Finder) (code.Table, error) {
		if check, err := checkAt(g.process, key.pc); err != nil || check != key.check {
			return code.Table{}, errGone
		}
		c, err := g.codeAt(f, key.pc, mapping.Start)
		if err != nil {
			return code.Table{}, err
		}
		offset, tier = int(key.pc-c.Start), c.Tier
		if c.Tier != symbolize.Baseline { // it says itself whose it is
			return f.Table(c, 0)
		}
		return f.Table(c, fn.shared)
	})
	switch {
	case t.positions.settle(key, table, err) || errors.Is(err, errGone) || err != nil && !g.hasMemory():
		t.positions.strays[key] = stray{table, offset, tier}
	case !errors.Is(err, errFull):
		t.positions.await(t.askForFunction(key.function), key)
	}
}

// checkAt hashes the code around pc as the kernel does.
func checkAt(p *process.Process, pc uint64) (uint64, error) {
	const golden = 0x9e3779b97f4a7c15 // 2^64 / golden ratio
	before, err := v8.ReadWord(p, pc-codeBytes/2)
	if err != nil {
		return 0, err
	}
	after, err := v8.ReadWord(p, pc)
	if err != nil {
		return 0, err
	}
	hash := (before*golden ^ after) * golden
	return hash >> (64 - formShift + pcEnd), nil
}

// codeAt returns the code that holds a pc, in memory that starts at low.
func (g *target) codeAt(f *code.Finder, pc, low uint64) (code.Code, error) {
	for _, found := range g.strays {
		if !found.Holds(pc) {
			continue
		}
		if now, err := f.Code(v8.Ref(found.Address)); err == nil && now == found {
			return now, nil
		}
	}
	if g.searches >= maxSearches {
		return code.Code{}, errSearched
	}
	c, err := f.At(pc, low)
	if err != nil {
		g.searches += vainSearch
		return c, err
	}
	g.searches++
	g.strays = append(g.strays[max(0, len(g.strays)-maxStrays+1):], c)
	return c, nil
}
