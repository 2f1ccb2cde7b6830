package nodetest

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A Plan says what jobs.js does.
type Plan struct {
	Addons  map[string]string `json:"addons,omitempty"`  // paths by name; "bcrypt" is npm's
	Workers int               `json:"workers,omitempty"` // threads that each carry out the plan; 0 is the main thread
	Stay    bool              `json:"stay,omitempty"`    // do not end afterwards
	Steps   []Step            `json:"steps"`
}

// A Step is a number of jobs for libuv's pool, one after the other unless said
// otherwise.
type Step struct {
	Addon    string  `json:"addon,omitempty"`    // a name of the plan's; one of node's own calls if empty
	Call     string  `json:"call"`               // "sleep", "spin", "cancel"; bcrypt's "hash"; see lib/calls.js for node's own
	Micros   float64 `json:"us,omitempty"`       // that one job takes
	Resource string  `json:"resource,omitempty"` // name of the async resource, for Node-API; the add-on's own if empty

	Count   int `json:"count,omitempty"`   // jobs, or
	Seconds int `json:"seconds,omitempty"` // how long to begin jobs, with a rate line each second

	InFlight    int     `json:"inflight,omitempty"` // jobs at a time; 1 if zero
	BlockMillis int     `json:"block_ms,omitempty"` // how long the event loop is blocked after each call
	Hold        int     `json:"hold,omitempty"`     // jobs of the add-on that sleep in front of the step's
	HoldMicros  float64 `json:"hold_us,omitempty"`
}

// A Tally is what became of a step's jobs. Durations are from the call to its
// callback, as the program measured them.
type Tally struct {
	Addon     string `json:"addon"`
	Call      string `json:"call"`
	Thread    int    `json:"thread"` // 0, or the worker's number
	Submitted int    `json:"submitted"`
	Completed int    `json:"completed"`
	Cancelled int    `json:"cancelled"`
	Failed    int    `json:"failed"`

	Min       time.Duration   `json:"min_ns"`
	Max       time.Duration   `json:"max_ns"`
	Sum       time.Duration   `json:"sum_ns"`
	Wall      time.Duration   `json:"wall_ns"`   // of the whole step
	Durations []time.Duration `json:"durations"` // of each job in the order of their ends, if they are few
}

// Jobs is a run of jobs.js.
type Jobs struct{ *Target }

// StartJobs returns when the program has loaded its add-ons. It does nothing
// before Begin.
func StartJobs(t testing.TB, node string, plan Plan) Jobs {
	t.Helper()
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	return Jobs{Start(t, node, Options{Script: "jobs.js", Args: []string{string(text)}})}
}

// Begin tells the program to carry its plan out.
func (j Jobs) Begin() {
	j.t.Helper()
	j.Signal(syscall.SIGUSR2)
}

// Rate returns the jobs of the next second, of a step that goes by seconds.
func (j Jobs) Rate() int {
	j.t.Helper()
	var rate struct{ Jobs int }
	j.decode(j.Line(), "rate", &rate)
	return rate.Jobs
}

// Done returns what became of the plan's steps, when all have ended. With
// workers, each of them has its own tallies.
func (j Jobs) Done() []Tally {
	j.t.Helper()
	line := j.Line()
	for strings.HasPrefix(line, "rate ") {
		line = j.Line()
	}
	var done struct{ Steps []Tally }
	j.decode(line, "done", &done)
	return done.Steps
}

func (j Jobs) decode(line, word string, to any) {
	j.t.Helper()
	facts, ok := strings.CutPrefix(line, word+" ")
	if !ok {
		j.t.Fatalf("line = %q, want %s", line, word)
	}
	if err := json.Unmarshal([]byte(facts), to); err != nil {
		j.t.Fatalf("decode %s: %v", facts, err)
	}
}
