package jsprof

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
)

// TestRegularExpressionsHaveTheirSource profiles a program that spends a third of its
// time in each of three regular expressions. One of them is longer than the part that
// is kept.
func TestRegularExpressionsHaveTheirSource(t *testing.T) {
	nodetest.Root(t)
	const each = 500
	p, targets := profileVersions(t, "regexps.js", each)
	for i, version := range nodetest.Versions {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			var truth struct {
				Patterns []string `json:"patterns"`
			}
			targets[i].Facts(&truth)
			counts := make(map[string]uint64)
			var all uint64
			for _, s := range p.Stacks {
				at := slices.IndexFunc(s.Frames, func(f symbolize.Frame) bool { return f.Kind == symbolize.RegExp })
				if s.PID == targets[i].PID && at >= 0 {
					counts[s.Frames[at].Name] += s.Value
					all += s.Value
				}
			}
			var named uint64
			for _, pattern := range truth.Patterns {
				count := countPattern(counts, pattern)
				if count < all/5 || count > all/2 {
					t.Errorf("samples of %s = %d of %d, want about a third", pattern, count, all)
				}
				named += count
			}
			if named*100 < all*99 || all < each/2 {
				t.Errorf("samples with the right source = %d of %d, want 99 %% of %d or more: %v", named, all, each/2, counts)
			}
		})
	}
}

// countPattern returns how many samples have a regular expression's source and flags,
// or the beginning of the source if it is long.
func countPattern(counts map[string]uint64, pattern string) uint64 {
	const kept = 64 // characters, or more
	if len(pattern) < kept {
		return counts["RegExp: "+pattern]
	}
	end := strings.LastIndex(pattern, "/")
	for name, count := range counts {
		source, flags, cut := strings.Cut(strings.TrimPrefix(name, "RegExp: "), "…/")
		if cut && len(source) >= kept && strings.HasPrefix(pattern, source) && flags == pattern[end+1:] {
			return count
		}
	}
	return 0
}
