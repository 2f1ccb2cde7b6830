package nodesnoop

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"ustack/tools/quantize"
)

// By is what events are grouped by.
type By int

// The ways to group events. The others than requests are grouped by their kinds.
const (
	ByRoute  By = iota // a server's requests by method and route, a client's by host, operations by what they are
	ByStatus           // by status; operations by their errors
	ByPeer             // by the other end's address; operations by what they are
	ByPath             // by method and path; operations with the path or name
)

// Bys are the names of the ways to group events.
var Bys = []string{"route", "status", "peer", "path"}

// maxGroups bounds the groups: what would be in more is in one.
const maxGroups = 1000

// OtherKey is the key of the group of all that are too many.
const OtherKey = "[other]"

// A Group is the events of one kind with the same key.
type Group struct {
	Kind    Kind
	Key     string // unfit to be printed
	Errors  uint64 // statuses from 500 on, requests without a response, operations that failed
	Latency quantize.Histogram
}

// A Summary counts events by group. The zero value groups by route.
type Summary struct {
	By     By
	groups map[groupKey]*Group
}

type groupKey struct {
	kind Kind
	key  string
}

// Add counts an event, and returns the group that it is in.
func (s *Summary) Add(e *Event) *Group {
	key := groupKey{e.Kind, s.key(e)}
	g := s.groups[key]
	if g == nil && len(s.groups) >= maxGroups {
		key.key = OtherKey
		g = s.groups[key]
	}
	if g == nil {
		if s.groups == nil {
			s.groups = make(map[groupKey]*Group)
		}
		g = &Group{Kind: key.kind, Key: key.key}
		s.groups[key] = g
	}
	g.Latency.Add(uint64(e.Latency))
	if e.Failed() {
		g.Errors++
	}
	return g
}

// Failed reports whether a request had no response, or one that says that the server failed,
// or whether an operation failed.
func (e *Event) Failed() bool {
	return e.Failure != "" || e.Kind.IsRequest() && (e.Status == 0 || e.Status >= http.StatusInternalServerError)
}

// key returns the event's key.
func (s *Summary) key(e *Event) string {
	switch {
	case e.Kind == GC:
		return e.Collection
	case e.Kind == LoopRun:
		return "iteration"
	case e.Kind == IO && s.By == ByStatus:
		return e.Method + " " + cmp.Or(e.Failure, e.Outcome.String())
	case e.Kind == IO && s.By == ByPath && e.URL != "":
		return e.Method + " " + e.URL
	case e.Kind == IO && (e.Method == "connect" || strings.HasPrefix(e.Method, "dns.")):
		return e.Method + " " + e.URL
	case e.Kind == IO:
		return e.Method
	case s.By == ByStatus && e.Status == 0:
		return e.Outcome.String()
	case s.By == ByStatus:
		return strconv.Itoa(e.Status)
	case s.By == ByPeer && e.Peer.Path != "":
		return e.Peer.Path
	case s.By == ByPeer:
		return e.Peer.Addr.String()
	case s.By == ByPath:
		return e.Method + " " + Path(e.URL)
	case e.Kind == Client:
		return cmp.Or(e.Host, e.Peer.Addr.String())
	}
	return e.Method + " " + Route(Path(e.URL))
}

// Groups returns the groups: by kind, those with most time first.
func (s *Summary) Groups() []*Group {
	all := make([]*Group, 0, len(s.groups))
	for _, g := range s.groups {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.Latency.Sum, a.Latency.Sum), cmp.Compare(a.Key, b.Key))
	})
	return all
}

// Total returns the sum of the groups of a kind.
func (s *Summary) Total(kind Kind) Group {
	total := Group{Kind: kind}
	for _, g := range s.groups {
		if g.Kind == kind {
			total.Errors += g.Errors
			total.Latency.Merge(&g.Latency)
		}
	}
	return total
}

// Time returns the sum of the latencies.
func (g *Group) Time() time.Duration { return time.Duration(g.Latency.Sum) }
