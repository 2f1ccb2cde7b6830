package read

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"

	"ustack/symbolize"
	"ustack/tools/profile"
)

// decode reads one JSON value. Errors say where in the file they are.
func decode(all []byte, into any) error {
	err := json.Unmarshal(all, into)
	var syntax *json.SyntaxError
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("offset %d: %w", syntax.Offset, err)
	case errors.As(err, &mistyped):
		return fmt.Errorf("offset %d: a %s in place of %s, in %s", mistyped.Offset, quote(mistyped.Value), mistyped.Type, quote(mistyped.Field))
	}
	return err
}

// ownProfile is a profile as package profile writes it in JSON.
type ownProfile struct {
	ValueType struct {
		Type string `json:"type"`
		Unit string `json:"unit"`
	} `json:"value_type"`
	Node          string            `json:"node"`
	V8            string            `json:"v8"`
	Hz            int               `json:"hz"`
	HzAsked       int               `json:"hz_asked"`
	Throttled     uint64            `json:"throttled"`
	Event         string            `json:"event"`
	Every         uint64            `json:"every"`
	Seen          uint64            `json:"seen"`
	Lost          uint64            `json:"lost"`
	Truncated     uint64            `json:"truncated"`
	UnknownFrames uint64            `json:"unknown_frames"`
	Failures      map[string]uint64 `json:"failures"`
	Processes     []struct {
		PID    int    `json:"pid"`
		Inside int    `json:"namespace_pid"`
		Title  string `json:"title"`
		Node   string `json:"node"`
		V8     string `json:"v8"`
	} `json:"processes"`
	Stacks []struct {
		Count  uint64            `json:"count"`
		Events uint64            `json:"events"`
		PID    int               `json:"pid"`
		TID    int               `json:"tid"`
		Thread string            `json:"thread"`
		Frames []symbolize.Frame `json:"frames"`
	} `json:"stacks"`
}

// maxProfiles bounds the profiles of one file, each of another event.
const maxProfiles = 64

// objects returns the JSON objects of a file, one after another.
func objects(all []byte) ([]json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(all))
	var each []json.RawMessage
	var syntax *json.SyntaxError
	for len(each) < maxProfiles {
		var one json.RawMessage
		switch err := decoder.Decode(&one); {
		case errors.Is(err, io.EOF):
			return each, nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil, fmt.Errorf("offset %d: unexpected end of JSON input", len(all))
		case errors.As(err, &syntax):
			return nil, fmt.Errorf("offset %d: %w", syntax.Offset, err)
		case err != nil:
			return nil, err
		}
		each = append(each, one)
	}
	return nil, fmt.Errorf("it has more than %d profiles", maxProfiles)
}

// readJSON reads one of the profiles of a file.
func readJSON(all []byte, b *builder) error {
	each, err := objects(all)
	switch {
	case err != nil:
		return err
	case len(each) == 0:
		return errors.New("it has no profile")
	}
	var names []string
	for _, one := range each {
		var of struct {
			ValueType struct {
				Type string `json:"type"`
			} `json:"value_type"`
		}
		if err := decode(one, &of); err != nil {
			return err
		}
		names = append(names, of.ValueType.Type)
	}
	at, err := b.choose(names, names[0])
	if err != nil {
		return err
	}
	var in ownProfile
	if err := decode(each[at], &in); err != nil {
		return err
	}
	p := &b.profile
	p.ValueType = profile.ValueType(in.ValueType)
	p.Node, p.V8, p.Hz, p.HzAsked = in.Node, in.V8, in.Hz, in.HzAsked
	p.Event, p.Every, p.Seen = in.Event, in.Every, in.Seen
	p.Throttled, p.Lost, p.Truncated, p.UnknownFrames = in.Throttled, in.Lost, in.Truncated, in.UnknownFrames
	p.Failures = maps.Clone(in.Failures)
	for _, known := range in.Processes {
		b.process(profile.Process{PID: known.PID, Inside: known.Inside, Title: known.Title, Node: known.Node, V8: known.V8})
	}
	for i, s := range in.Stacks {
		if err := b.add(profile.Stack{Value: s.Count, Events: s.Events, PID: s.PID, TID: s.TID, Thread: s.Thread, Frames: s.Frames}); err != nil {
			return fmt.Errorf("stacks[%d]: %w", i, err)
		}
	}
	return nil
}
