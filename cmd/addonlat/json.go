package main

import (
	"maps"
	"time"

	"ustack/symbolize"
	"ustack/tools/addonlat"
	"ustack/tools/quantize"
)

// The JSON format: a contract with other programs. Names are only ever added.
type (
	jsonReport struct {
		Time     string            `json:"time,omitempty"` // RFC 3339; with --interval only
		Duration int64             `json:"duration_ns"`
		Kinds    []jsonKind        `json:"kinds"`
		Pool     jsonPools         `json:"pool"`
		Lost     uint64            `json:"lost"`
		Failures map[string]uint64 `json:"failures"` // by cause
	}
	jsonKind struct {
		PID       int                `json:"pid"`
		Key       string             `json:"key"`
		Builtin   bool               `json:"builtin,omitempty"`
		Stack     []symbolize.Frame  `json:"stack,omitempty"` // leaf first
		Count     uint64             `json:"count"`
		Cancelled uint64             `json:"cancelled"`
		Failed    uint64             `json:"failed"`
		Total     quantize.Histogram `json:"total"`
		Wait      quantize.Histogram `json:"wait"`
		Run       quantize.Histogram `json:"run"`
		Delivery  quantize.Histogram `json:"delivery"`
		Linear    *jsonLinear        `json:"linear,omitempty"`
	}
	jsonLinear struct {
		Low    int64    `json:"low_ns"`
		High   int64    `json:"high_ns"`
		Step   int64    `json:"step_ns"`
		Counts []uint64 `json:"counts"` // below Low, of each step, above
	}
	jsonPools struct { // the sum, and each one
		jsonPool
		Unfollowed uint64       `json:"unfollowed"`
		Processes  []jsonPoolOf `json:"processes"`
	}
	jsonPoolOf struct {
		PID    int `json:"pid"`
		Inside int `json:"namespace_pid,omitempty"` // if it is another
		jsonPool
	}
	jsonPool struct {
		Threads   uint64  `json:"threads"`
		Busy      float64 `json:"busy"`
		Deepest   uint64  `json:"deepest"`
		SlowQuota uint64  `json:"slow_quota"`
		Submitted uint64  `json:"submitted"`
		Completed uint64  `json:"completed"`
		Cancelled uint64  `json:"cancelled"`
		Failed    uint64  `json:"failed"`
		InFlight  *uint64 `json:"in_flight"` // null if some completions cannot be seen
		Before    uint64  `json:"before"`
		Uring     uint64  `json:"io_uring"`
	}
)

func (v view) object(r *addonlat.Report, at time.Time) jsonReport {
	object := jsonReport{
		Duration: int64(r.Duration),
		Kinds:    make([]jsonKind, 0, len(r.Kinds)),
		Pool: jsonPools{
			jsonPool: jsonPool{InFlight: new(uint64)}, Unfollowed: r.Unfollowed, Processes: make([]jsonPoolOf, 0, len(r.Pools)),
		},
		Lost: r.Lost, Failures: map[string]uint64{},
	}
	maps.Copy(object.Failures, r.Failures)
	if v.timed {
		object.Time = at.Format(time.RFC3339Nano)
	}
	for i := range r.Kinds {
		object.Kinds = append(object.Kinds, kindObject(&r.Kinds[i]))
	}
	for _, p := range r.Pools {
		pool := poolObject(p)
		object.Pool.add(pool)
		object.Pool.Processes = append(object.Pool.Processes, jsonPoolOf{p.PID, p.Inside, pool})
	}
	return object
}

func kindObject(k *addonlat.Kind) jsonKind {
	object := jsonKind{
		PID: k.PID, Key: k.Key, Builtin: k.Builtin, Stack: k.Stack,
		Count: k.Count, Cancelled: k.Cancelled, Failed: k.Failed,
		Total: k.Total, Wait: k.Wait, Run: k.Run, Delivery: k.Delivery,
	}
	if l := k.Linear; l != nil {
		object.Linear = &jsonLinear{l.Low, l.High, l.Step, l.Counts}
	}
	return object
}

func poolObject(p addonlat.Pool) jsonPool {
	inFlight := &p.InFlight
	if p.Unseen {
		inFlight = nil
	}
	return jsonPool{
		p.Threads, p.Busy, p.Deepest, p.SlowQuota,
		p.Submitted, p.Completed, p.Cancelled, p.Failed, inFlight, p.Before, p.Uring,
	}
}

// add makes p the sum of both pools: busy is the share of all threads, and
// deepest is that of the deeper queue.
func (p *jsonPool) add(q jsonPool) {
	threads := p.Threads + q.Threads
	if threads > 0 {
		p.Busy = (p.Busy*float64(p.Threads) + q.Busy*float64(q.Threads)) / float64(threads)
	}
	p.Threads = threads
	p.Deepest = max(p.Deepest, q.Deepest)
	p.SlowQuota += q.SlowQuota
	p.Submitted += q.Submitted
	p.Completed += q.Completed
	p.Cancelled += q.Cancelled
	p.Failed += q.Failed
	if p.InFlight != nil && q.InFlight != nil {
		*p.InFlight += *q.InFlight
	} else {
		p.InFlight = nil
	}
	p.Before += q.Before
	p.Uring += q.Uring
}
