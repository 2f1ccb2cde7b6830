package profile

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ustack/symbolize"
	"ustack/tools/printable"
)

// NoJavaScript is the one frame that JSOnly leaves of a stack without
// JavaScript, so that percentages still refer to all samples.
const NoJavaScript = "[no javascript]"

// Merge returns p with equal stacks of one thread counted together: most
// frequent first, equal counts by process, thread and frames.
func (p *Profile) Merge() *Profile {
	ids := map[symbolize.Frame]uint64{}
	seen := map[string]int{}
	merged := *p
	merged.Stacks = nil
	for _, s := range p.Stacks {
		key := stackKey(s, ids)
		if i, ok := seen[key]; ok {
			merged.Stacks[i].Value += s.Value
			merged.Stacks[i].Events += s.Events
			continue
		}
		seen[key] = len(merged.Stacks)
		merged.Stacks = append(merged.Stacks, s)
	}
	slices.SortFunc(merged.Stacks, func(a, b Stack) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), compareThreads(a, b),
			slices.CompareFunc(a.Frames, b.Frames, compareFrames), cmp.Compare(a.Bucket, b.Bucket))
	})
	return &merged
}

// stackKey returns a string that only equal stacks of one thread share; ids
// numbers the frames.
func stackKey(s Stack, ids map[symbolize.Frame]uint64) string {
	key := binary.AppendVarint(nil, int64(s.PID))
	key = binary.AppendVarint(key, int64(s.TID))
	key = binary.AppendUvarint(key, uint64(s.Bucket))
	key = binary.AppendUvarint(key, uint64(len(s.Thread)))
	key = append(key, s.Thread...)
	for _, f := range s.Frames {
		id, ok := ids[f]
		if !ok {
			id = uint64(len(ids))
			ids[f] = id
		}
		key = binary.AppendUvarint(key, id)
	}
	return string(key)
}

func compareThreads(a, b Stack) int {
	return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID), cmp.Compare(a.Thread, b.Thread))
}

func compareFrames(a, b symbolize.Frame) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
		cmp.Compare(a.Module, b.Module), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Tier, b.Tier),
		cmp.Compare(a.ExecutingLine, b.ExecutingLine), cmp.Compare(a.ExecutingColumn, b.ExecutingColumn), compareBools(a.Inlined, b.Inlined), compareBools(a.Nearest, b.Nearest),
		cmp.Compare(a.GeneratedFile, b.GeneratedFile), cmp.Compare(a.GeneratedLine, b.GeneratedLine), cmp.Compare(a.GeneratedColumn, b.GeneratedColumn),
		cmp.Compare(a.GeneratedExecutingLine, b.GeneratedExecutingLine), cmp.Compare(a.GeneratedExecutingColumn, b.GeneratedExecutingColumn))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// WithoutTyped returns p without V8's typed frames (entry, exit, construct …).
// A stack of nothing else keeps them.
func (p *Profile) WithoutTyped() *Profile {
	return p.edit(func(frames []symbolize.Frame) []symbolize.Frame {
		kept := slices.DeleteFunc(slices.Clone(frames), func(f symbolize.Frame) bool { return f.Kind == symbolize.Typed })
		if len(kept) == 0 {
			return frames
		}
		return kept
	})
}

// byLine returns p with the executing line in place of a function's, where it is known:
// each line is a function of its own.
func (p *Profile) byLine() *Profile {
	return p.edit(func(frames []symbolize.Frame) []symbolize.Frame {
		lines := slices.Clone(frames)
		for i, f := range lines {
			if f.ExecutingLine > 0 {
				lines[i].Line, lines[i].Column = f.ExecutingLine, 0
			}
		}
		return lines
	})
}

// ByTier returns p with the tier of each frame, where it has one, after its name: a
// function is several, by tier.
func (p *Profile) ByTier() *Profile {
	return p.edit(func(frames []symbolize.Frame) []symbolize.Frame {
		tiers := slices.Clone(frames)
		for i, f := range tiers {
			tiers[i] = WithTier(f)
		}
		return tiers
	})
}

// JSOnly returns p with only JavaScript and WebAssembly functions, regular
// expressions and what Runtime has put in on the stacks, and NoJavaScript on those that
// have none: a function's self count then includes the native code that it called.
func (p *Profile) JSOnly() *Profile {
	only := p.edit(func(frames []symbolize.Frame) []symbolize.Frame {
		kept := slices.DeleteFunc(slices.Clone(frames), func(f symbolize.Frame) bool { return !ofProgram(f) && f.Kind != symbolize.Runtime })
		if len(kept) == 0 {
			return []symbolize.Frame{{Name: NoJavaScript}}
		}
		return kept
	})
	only.jsOnly = true
	return only
}

// folded returns p with one labelled frame in place of the native frames between
// two of the program's functions, or on top of the last. Native frames below the
// first are left out; a stack of nothing else is one frame. The total is p's.
func (p *Profile) folded() *Profile {
	c := classifier{}
	return p.edit(c.fold)
}

// fold returns a stack's frames, leaf first, as folded has them.
func (c classifier) fold(frames []symbolize.Frame) []symbolize.Frame {
	var folded []symbolize.Frame
	for rest := frames; len(rest) > 0; {
		n := nativeRun(rest)
		if n == len(rest) {
			break
		}
		if n > 0 {
			folded = append(folded, c.work(rest[:n]))
		}
		folded = append(folded, rest[n])
		rest = rest[n+1:]
	}
	switch {
	case len(frames) == 0:
		return frames
	case folded == nil:
		return []symbolize.Frame{c.group(frames)}
	case frames[len(frames)-1].Name == symbolize.Truncated:
		return append(folded, frames[len(frames)-1])
	}
	return folded
}

// nativeRun returns how many frames there are before the first one of the
// program's own functions.
func nativeRun(frames []symbolize.Frame) int {
	if n := slices.IndexFunc(frames, ofProgram); n >= 0 {
		return n
	}
	return len(frames)
}

// hasProgram reports whether one of the program's own functions is in p.
func (p *Profile) hasProgram() bool {
	return slices.ContainsFunc(p.Stacks, func(s Stack) bool { return slices.ContainsFunc(s.Frames, ofProgram) })
}

// Filter returns p with only the stacks that have a frame whose Label or module
// matches. Total is of what is left; the losses are still those of the whole
// run.
func (p *Profile) Filter(pattern *regexp.Regexp) *Profile {
	return p.keep(matcher(pattern))
}

// Exclude returns p without the stacks that Filter keeps.
func (p *Profile) Exclude(pattern *regexp.Regexp) *Profile {
	matches := matcher(pattern)
	return p.keep(func(s Stack) bool { return !matches(s) })
}

// matcher returns a function that reports whether a frame of a stack matches.
func matcher(pattern *regexp.Regexp) func(Stack) bool {
	matches := map[symbolize.Frame]bool{}
	return func(s Stack) bool {
		return slices.ContainsFunc(s.Frames, func(f symbolize.Frame) bool {
			matched, known := matches[f]
			if !known {
				matched = pattern.MatchString(Label(f)) || pattern.MatchString(f.Module)
				matches[f] = matched
			}
			return matched
		})
	}
}

// Thread returns p with only the stacks of threads whose name, or number in
// decimal, matches the shell pattern glob, in which * also stands for a slash.
func (p *Profile) Thread(glob string) (*Profile, error) {
	if _, err := path.Match(glob, ""); err != nil {
		return nil, fmt.Errorf("read thread pattern %q: %w", glob, err)
	}
	// path.Match does not match a slash with *; names have no zero byte.
	noSlash := func(s string) string { return strings.ReplaceAll(s, "/", "\x00") }
	return p.keep(func(s Stack) bool {
		byName, _ := path.Match(noSlash(glob), noSlash(s.Thread))
		byNumber, _ := path.Match(glob, strconv.Itoa(s.TID))
		return byName || byNumber
	}), nil
}

// edit returns p with each stack's frames replaced; change must not write to
// the frames that it is given.
func (p *Profile) edit(change func([]symbolize.Frame) []symbolize.Frame) *Profile {
	edited := *p
	edited.Stacks = slices.Clone(p.Stacks)
	for i := range edited.Stacks {
		edited.Stacks[i].Frames = change(edited.Stacks[i].Frames)
	}
	return edited.Merge()
}

// keep returns p with only the stacks for which wanted returns true.
func (p *Profile) keep(wanted func(Stack) bool) *Profile {
	kept := *p
	kept.Stacks, kept.Total, kept.Events = nil, 0, 0
	for _, s := range p.Stacks {
		if wanted(s) {
			kept.Stacks = append(kept.Stacks, s)
			kept.Total += s.Value
			kept.Events += s.Events
		}
	}
	return kept.Merge()
}

// A thread is the stacks of one thread.
type thread struct {
	PID, TID int
	Name     string
	Stacks   []Stack
}

// threads returns p's stacks by thread, ordered by process and thread.
func (p *Profile) threads() []thread {
	stacks := slices.Clone(p.Stacks)
	slices.SortStableFunc(stacks, compareThreads)
	var threads []thread
	for _, s := range stacks {
		last := len(threads) - 1
		if last < 0 || compareThreads(threads[last].Stacks[0], s) != 0 {
			threads = append(threads, thread{PID: s.PID, TID: s.TID, Name: printable.String(s.Thread)})
			last++
		}
		threads[last].Stacks = append(threads[last].Stacks, s)
	}
	return threads
}

// String returns the thread as "node 4242/4250": name, process, thread.
func (t thread) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %d/%d", t.Name, t.PID, t.TID))
}

// frames returns a stack's frames, or a placeholder frame for a stack without
// any.
func (s Stack) frames() []symbolize.Frame {
	if len(s.Frames) == 0 {
		return []symbolize.Frame{{Name: symbolize.Unknown}}
	}
	return s.Frames
}
