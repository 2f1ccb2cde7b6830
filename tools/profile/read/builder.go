package read

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"ustack/symbolize"
	"ustack/tools/profile"
)

// A builder makes a profile of stacks, and counts equal ones together.
type builder struct {
	profile profile.Profile
	values  string   // the type of values that is wanted; empty for the default
	chosen  bool     // it was looked for
	types   []string // of values, if there are several
	ids     map[symbolize.Frame]uint64
	stacks  map[string]int // positions in profile.Stacks
}

func newBuilder(values string) *builder {
	return &builder{values: values, ids: map[symbolize.Frame]uint64{}, stacks: map[string]int{}}
}

var errTooLarge = errors.New("the sum of its values is too large")

// add adds a stack. A stack that is too deep is cut at the root, and counted.
func (b *builder) add(s profile.Stack) error {
	if s.Value == 0 {
		return nil
	}
	if b.profile.Total > math.MaxInt64-min(s.Value, math.MaxInt64) || s.Value > math.MaxInt64 {
		return errTooLarge
	}
	b.profile.Total += s.Value
	b.profile.Events += s.Events
	if len(s.Frames) > maxDepth {
		s.Frames = append(slices.Clone(s.Frames[:maxDepth]), symbolize.Frame{Name: symbolize.Truncated})
		b.profile.Truncated += s.Value
	}
	key, err := b.key(s)
	if err != nil {
		return err
	}
	if i, ok := b.stacks[key]; ok {
		b.profile.Stacks[i].Value += s.Value
		b.profile.Stacks[i].Events += s.Events
		return nil
	}
	if len(b.stacks) == maxStacks {
		return fmt.Errorf("it has more than %d different stacks", maxStacks)
	}
	b.stacks[key] = len(b.profile.Stacks)
	s.Frames = slices.Clone(s.Frames)
	b.profile.Stacks = append(b.profile.Stacks, s)
	return nil
}

// key returns a string that only equal stacks share.
func (b *builder) key(s profile.Stack) (string, error) {
	key := binary.AppendVarint(nil, int64(s.PID))
	key = binary.AppendVarint(key, int64(s.TID))
	key = binary.AppendUvarint(key, uint64(len(s.Thread)))
	key = append(key, s.Thread...)
	for _, f := range s.Frames {
		id, ok := b.ids[f]
		if !ok {
			if len(b.ids) == maxFrames {
				return "", fmt.Errorf("it has more than %d different frames", maxFrames)
			}
			id = uint64(len(b.ids))
			b.ids[f] = id
		}
		key = binary.AppendUvarint(key, id)
	}
	return string(key), nil
}

// choose returns which of the types of values is to be read: the one that is wanted,
// or else the usual one.
func (b *builder) choose(types []string, usual string) (int, error) {
	b.chosen = true
	wanted := cmp.Or(b.values, usual)
	at := slices.Index(types, wanted)
	switch {
	case at < 0 && b.values != "":
		return 0, fmt.Errorf("it has no values of type %s (there are: %s)", quote(b.values), list(types))
	case at < 0:
		at = 0
	}
	if len(types) > 1 {
		b.types = append([]string{types[at]}, slices.Delete(slices.Clone(types), at, at+1)...)
	}
	return at, nil
}

// maxListed bounds the types of values in a message.
const maxListed = 8

// list returns types of values as a text.
func list(types []string) string {
	var text string
	for i, t := range types {
		if i == maxListed {
			return text + ", …"
		}
		if i > 0 {
			text += ", "
		}
		text += quote(t)
	}
	return text
}

// finish checks what was made.
func (b *builder) finish() error {
	p := &b.profile
	if only := cmp.Or(p.ValueType.Type, profile.Samples.Type); b.values != "" && !b.chosen && only != b.values {
		return fmt.Errorf("it has no values of type %s (there are: %s)", quote(b.values), quote(only))
	}
	if p.ValueType == profile.Samples {
		p.ValueType = profile.ValueType{}
	}
	if len(p.Stacks) == 0 {
		return errors.New("it has no stacks")
	}
	return p.Check()
}
