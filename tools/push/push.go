// Package push sends profiles to those who keep them: receivers of OpenTelemetry's protocol,
// such as its Collector, Pyroscope and Parca.
//
// A Pusher sends from a bounded queue, in the order of its profiles, and tries again what a
// receiver may take later. What it has sent, and what it has dropped and why, is counted.
package push

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	pprof "github.com/google/pprof/profile"

	"ustack/tools/labels"
)

// A Profile is what one process did in some time.
type Profile struct {
	Labels []labels.Label
	Data   *pprof.Profile
}

// Samples is the sum of the first of each sample's values.
func (p *Profile) Samples() (n uint64) {
	for _, s := range p.Data.Sample {
		n += uint64(s.Value[0])
	}
	return n
}

// The causes for which profiles are dropped.
const (
	Full     = "there was no room to keep them until they could be sent"
	Rejected = "the receiver rejected them"
	Old      = "they could not be sent for an hour"
	Unsent   = "they could not be sent before the end"
	Invalid  = "they could not be encoded"
)

// A Loss is how much was dropped for one cause.
type Loss struct {
	Profiles, Samples uint64
	Last              error // of the last one, if it says more than the cause; may be nil
}

// Counts are what became of the profiles so far.
type Counts struct {
	Profiles, Samples uint64          // that a receiver has confirmed
	Again             uint64          // attempts after the first, for all profiles
	Waiting           int             // profiles
	Dropped           map[string]Loss // by cause
}

// Limits, so that a receiver that does not answer costs neither memory nor the next profiles.
const (
	maxQueued = 32 << 20         // bytes of profiles that wait
	maxAge    = time.Hour        // of a profile that waits: receivers refuse older ones
	sendLimit = 20 * time.Second // for one attempt
	firstWait = 500 * time.Millisecond
	longWait  = 30 * time.Second
	hastyWait = time.Second // at the end
)

// A Pusher sends profiles to a receiver, in the background.
type Pusher struct {
	receiver *Receiver
	warn     func(error)

	patient context.Context // ends when Close begins: waits become short
	hurry   context.CancelFunc
	sending context.Context // ends when nothing more is to be sent
	stop    context.CancelFunc
	done    sync.WaitGroup

	mutex  sync.Mutex
	filled *sync.Cond
	queue  []item
	queued int // bytes, of queue and of what is being sent
	closed bool
	counts Counts
	failed bool // the last attempt has, and was reported
}

// An item is a profile that is ready to be sent.
type item struct {
	body    []byte
	samples uint64
	made    time.Time
	tried   bool
}

// New returns a Pusher. Close ends it. It calls warn when the receiver cannot be reached any
// more, and when it can again.
func New(to *Receiver, warn func(error)) *Pusher {
	p := &Pusher{receiver: to, warn: warn, counts: Counts{Dropped: make(map[string]Loss)}}
	p.filled = sync.NewCond(&p.mutex)
	p.patient, p.hurry = context.WithCancel(context.Background())
	p.sending, p.stop = context.WithCancel(context.Background())
	p.done.Go(p.run)
	return p
}

// Push sends profiles when their turn comes. If there is no room, the oldest that wait are
// dropped. It must not be called concurrently.
func (p *Pusher) Push(all ...Profile) {
	for i := range all {
		body, err := p.receiver.encode(&all[i])
		it := item{body: body, samples: all[i].Samples(), made: time.Now()}
		p.mutex.Lock()
		if err != nil {
			p.drop(it, Invalid, err)
		} else {
			p.put(it)
		}
		p.mutex.Unlock()
	}
}

// put appends to the queue.
func (p *Pusher) put(it item) {
	for len(p.queue) > 0 && p.queued+len(it.body) > maxQueued {
		p.queued -= len(p.queue[0].body)
		p.drop(p.queue[0], Full, nil)
		p.queue = p.queue[1:]
	}
	if p.queued+len(it.body) > maxQueued {
		p.drop(it, Full, nil)
		return
	}
	p.queue = append(p.queue, it)
	p.queued += len(it.body)
	p.filled.Signal()
}

func (p *Pusher) drop(it item, cause string, err error) {
	loss := p.counts.Dropped[cause]
	p.counts.Dropped[cause] = Loss{loss.Profiles + 1, loss.Samples + it.samples, err}
}

// Counts returns the counts so far.
func (p *Pusher) Counts() Counts {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	c := p.counts
	c.Waiting = len(p.queue)
	c.Dropped = maps.Clone(c.Dropped)
	return c
}

// Close sends what waits, until ctx is done, and returns the final counts. Push must not be
// called any more.
func (p *Pusher) Close(ctx context.Context) Counts {
	defer context.AfterFunc(ctx, p.stop)()
	p.mutex.Lock()
	p.closed = true
	p.filled.Signal()
	p.mutex.Unlock()
	p.hurry()
	p.done.Wait()
	p.stop()
	p.receiver.close()
	return p.Counts()
}

// run sends until the queue is empty and closed.
func (p *Pusher) run() {
	for {
		it, ok := p.next()
		if !ok {
			return
		}
		err := p.deliver(&it)
		p.mutex.Lock()
		p.queued -= len(it.body)
		p.count(it, err)
		p.mutex.Unlock()
	}
}

// next waits for the next profile; false if there will be none.
func (p *Pusher) next() (item, bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for len(p.queue) == 0 && !p.closed {
		p.filled.Wait()
	}
	if len(p.queue) == 0 {
		return item{}, false
	}
	it := p.queue[0]
	p.queue[0] = item{} // lets go of its body
	p.queue = p.queue[1:]
	return it, true
}

// count counts what became of a profile.
func (p *Pusher) count(it item, err error) {
	var refused *rejection
	switch {
	case err == nil:
		p.counts.Profiles++
		p.counts.Samples += it.samples
	case errors.As(err, &refused):
		p.drop(it, Rejected, err)
	case p.sending.Err() != nil:
		p.drop(it, Unsent, err)
	default:
		p.drop(it, Old, err)
	}
}

// deliver sends a profile, again and again if the receiver may take it later. Once Close was
// called, the waits are short.
func (p *Pusher) deliver(it *item) error {
	if p.patient.Err() == nil {
		err := p.try(p.patient, it, longWait)
		var refused *rejection
		if err == nil || errors.As(err, &refused) || p.patient.Err() == nil {
			return err
		}
	}
	return p.try(p.sending, it, hastyWait)
}

// try sends a profile until it is delivered, rejected or too old, or until ctx is done.
func (p *Pusher) try(ctx context.Context, it *item, longest time.Duration) error {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = firstWait, longest
	var last error // says more than that ctx is done
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		last = p.attempt(it)
		return struct{}{}, last
	}, backoff.WithBackOff(waits), backoff.WithMaxElapsedTime(max(time.Second, maxAge-time.Since(it.made))))
	if err != nil && ctx.Err() != nil {
		return last
	}
	return err
}

// attempt sends a profile once.
func (p *Pusher) attempt(it *item) error {
	p.mutex.Lock()
	if it.tried {
		p.counts.Again++
	}
	it.tried = true
	p.mutex.Unlock()
	ctx, cancel := context.WithTimeout(p.sending, sendLimit)
	defer cancel()
	err := p.receiver.call(ctx, it.body)
	var refused *rejection
	if errors.As(err, &refused) {
		return backoff.Permanent(err)
	}
	p.report(err)
	var later *laterError
	if errors.As(err, &later) && later.after > 0 {
		return &backoff.RetryAfterError{Duration: min(later.after, longWait)}
	}
	return err
}

// report warns when attempts begin to fail, and when they no longer do.
func (p *Pusher) report(err error) {
	failed := err != nil
	if failed == p.failed {
		return
	}
	p.failed = failed
	if failed {
		p.warn(fmt.Errorf("push to %s: %w (trying again)", p.receiver, err))
		return
	}
	p.warn(fmt.Errorf("push to %s: it answers again", p.receiver))
}
