package main

import (
	"ustack/cmd/internal/cli"
	"ustack/symbolize"
	"ustack/tools/profile"
)

const defaultContext = 3 // lines

// An annotation says whose source is shown in place of the profile.
type annotation struct {
	functions string // a profile.Pattern; empty: the profile is shown
	context   int

	pattern *profile.Pattern
}

// check reports arguments that make no sense, and returns what to write instead of format.
func (a *annotation) check(format profile.Format) (profile.Format, error) {
	if a.functions == "" {
		if a.context != defaultContext {
			return format, cli.Usagef("--context needs --annotate")
		}
		return format, nil
	}
	var err error
	if a.pattern, err = profile.ParsePattern(a.functions); err != nil {
		return format, cli.Usagef("--annotate: %v", err)
	}
	annotated, err := format.Annotated(a.pattern)
	if err != nil {
		return format, cli.Usagef("--annotate: %v", err)
	}
	return annotated, nil
}

// wanted returns whose sources are needed; nil if none are.
func (a *annotation) wanted() func(symbolize.Frame) bool {
	if a.pattern == nil {
		return nil
	}
	return a.pattern.Matches
}
