package main

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"ustack/cmd/internal/cli"
	"ustack/tools/jscore"
)

const (
	longestName = 64 // bytes; nothing is suggested for a longer one
	suggestions = 3
)

// nearest returns the candidates most similar to a name, the best first.
func nearest(name string, candidates []string) []string {
	if len(name) > longestName {
		return nil
	}
	type near struct {
		name     string
		distance int
	}
	var found []near
	for _, candidate := range candidates {
		if len(candidate) > longestName {
			continue
		}
		d := levenshtein.ComputeDistance(strings.ToLower(name), strings.ToLower(candidate))
		if len(name) > 2 && strings.HasPrefix(strings.ToLower(candidate), strings.ToLower(name)) {
			d = 1
		}
		if d < min(max(2, len(name)/3)+1, len(name)) {
			found = append(found, near{candidate, d})
		}
	}
	slices.SortStableFunc(found, func(a, b near) int { return cmp.Compare(a.distance, b.distance) })
	var names []string
	for _, n := range found[:min(len(found), suggestions)] {
		names = append(names, n.name)
	}
	return names
}

// emitKnown emits a result with count objects; if that is 0, only if some objects have the class
// and the kind that options ask for.
func (v *invocation) emitKnown(ctx context.Context, r jscore.Result, count int, o jscore.CensusOptions) error {
	if count == 0 {
		g, err := v.graph(ctx)
		if err != nil {
			return err
		}
		if err := known(ctx, g, o); err != nil {
			return err
		}
	}
	return v.emit(r)
}

// known returns an error if no object has the class or the kind that options ask for, with
// similar names.
func known(ctx context.Context, g *jscore.Graph, o jscore.CensusOptions) error {
	if o.Class == "" && o.Kind == "" {
		return nil
	}
	names := g.Names(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case o.Class != "" && !slices.Contains(names.Classes, o.Class):
		return unknown("class", o.Class, names.Classes)
	case o.Kind != "" && !slices.ContainsFunc(names.Kinds, func(kind string) bool { return strings.EqualFold(kind, o.Kind) }):
		return unknown("kind", o.Kind, names.Kinds)
	}
	return nil
}

func unknown(what, name string, known []string) error {
	near := nearest(name, known)
	if len(near) == 0 {
		return cli.Usagef("no object has the %s %q", what, name)
	}
	return cli.Usagef("no object has the %s %q (did you mean %s?)", what, name, strings.Join(near, " or "))
}
