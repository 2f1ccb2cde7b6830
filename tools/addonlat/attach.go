package addonlat

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"ustack/bpf"
	"ustack/loader"
	"ustack/symbolize/libuv"
	"ustack/tools/jobs"
	"ustack/tools/trace"
)

// A target is one program in one process.
type target struct {
	pid        int
	inside     int // see trace.Identity
	generation uint64
	number     uint32 // of its pool, in the kernel
	begun      time.Time
	size       uint64        // threads of the pool by libuv's own count; 0: none started yet
	assumed    uint64        // the same by the environment
	libuv      *trace.Module // open until the target is removed
	links      []link.Link
	unseen     bool             // some completions cannot be probed: the jobs in flight are not known
	read       bpf.AddonlatPool // when it was last read
	last       bpf.AddonlatPool // at the last report
	ended      time.Time        // zero until then
	final      bpf.AddonlatPool // at that time
}

// createAPI is a function of Node-API, at which work gets its name.
const createAPI = "napi_create_async_work"

// program returns the program that runs at a moment of jobs.
func (s *session) program(m jobs.Moment) *ebpf.Program {
	o := &s.objects
	return map[jobs.Moment]*ebpf.Program{
		jobs.Begun: o.OnRun, jobs.Ran: o.OnRan, jobs.Completed: o.OnDone, jobs.ByRing: o.OnUring,
		jobs.Initialized: o.OnInit, jobs.Submitted: o.OnSubmit, jobs.Queued: o.OnQueue,
	}[m]
}

// attach follows the jobs of process pid, which the table has started to trace.
func (s *session) attach(pid int) error {
	t := &target{pid: pid, inside: s.Table.Inside(pid), generation: uint64(s.Table.Generation(pid))}
	s.detach(pid) // if it has a new program
	var err error
	t.libuv, err = s.module(pid, libuv.QueueWork)
	if errors.Is(err, errNoLibuv) && len(s.o.Command) > 0 {
		return nil // a shell, say: its children, or its next program, may have it
	}
	if err != nil {
		return err
	}
	t.assumed = poolSize(pid)
	s.mutex.Lock()
	t.number = s.numbers.Take()
	s.mutex.Unlock()
	err = s.attachTo(t)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err != nil {
		err = errors.Join(err, t.close())
		s.numbers.GiveBack(t.number)
		return err
	}
	t.begun = time.Now()
	s.targeted[pid] = t
	s.all[t.generation] = t
	return nil
}

// cookie is what the kernel half needs of a probe: its pool's number in the lower
// half, what to know about the place in the upper half.
func (t *target) cookie(place uint32) uint64 { return uint64(place)<<32 | uint64(t.number) }

// threads returns how many threads the pool has by libuv's own count, or by the last
// count that could be read; 0 if there was none: threads start with the first job.
func (t *target) threads() uint64 {
	if t.libuv == nil {
		return t.size
	}
	if n, err := t.libuv.Int("nthreads"); err == nil && n > 0 && n <= maxPool {
		t.size = uint64(n)
	}
	return t.size
}

// attachTo tells the kernel about the pool of t's process, and probes libuv in it and,
// if needed, node.
func (s *session) attachTo(t *target) error {
	pool := bpf.AddonlatPool{Generation: t.generation, Size: cmp.Or(t.threads(), t.assumed)}
	if err := s.objects.Pools.Put(t.number, &pool); err != nil {
		return fmt.Errorf("tell the kernel about the pool of process %d: %w", t.pid, err)
	}
	places := jobs.Find(t.libuv)
	for _, p := range places.Probes {
		probes := loader.Probes{Program: s.program(p.Moment), Name: p.Name, Return: p.Returns}
		for _, at := range p.Points {
			probes.Points = append(probes.Points, loader.Point{Offset: at.Offset, Cookie: t.cookie(at.Place)})
		}
		if err := t.probe(t.libuv, probes); err != nil {
			return err
		}
	}
	t.unseen = places.Unseen
	if len(places.Missing) > 0 {
		s.Warn(fmt.Errorf("process %d: libuv is stripped of symbols, or not built as usual, so it is not seen %s", t.pid, strings.Join(places.Missing, ", ")))
	}
	if s.o.By > Resource {
		return nil
	}
	node, err := s.module(t.pid, createAPI)
	if err != nil && s.o.By == Function { // the names are used if there are no others
		return nil
	}
	if err != nil {
		return err
	}
	return s.attachNames(t, node)
}

// attachNames probes the functions of Node-API at which works get their names, where node
// has them.
func (s *session) attachNames(t *target, node *trace.Module) error {
	for _, p := range []struct {
		symbol    string
		program   *ebpf.Program
		arguments int // that the program reads, of the first four
		returns   bool
	}{
		{symbol: createAPI, program: s.objects.OnCreated, returns: true},
		{symbol: createAPI, program: s.objects.OnCreate, arguments: 4},
		{symbol: "napi_queue_async_work", program: s.objects.OnQueueNamed, arguments: 2},
	} {
		code, offset := node.Code(p.symbol)
		if code == nil {
			continue
		}
		if !p.returns {
			site := libuv.Site{Function: libuv.Function{Code: code, Offset: offset}, Machine: node.Machine()}
			offset += uint64(site.Entry(p.arguments))
		}
		point := loader.Point{Offset: offset, Cookie: t.cookie(0)}
		if err := t.probe(node, loader.Probes{Program: p.program, Name: p.symbol, Return: p.returns, Points: []loader.Point{point}}); err != nil {
			return err
		}
	}
	return nil
}

var errNoLibuv = errors.New("neither Node.js nor libuv is in it, or they are stripped of all symbols")

func (s *session) module(pid int, symbol string) (*trace.Module, error) {
	module, err := s.Table.Module(pid, symbol)
	if err == nil && module == nil {
		err = fmt.Errorf("process %d has no %s: %w", pid, symbol, errNoLibuv)
	}
	return module, err
}

func (t *target) probe(m *trace.Module, p loader.Probes) error {
	path, err := m.Path()
	if err != nil {
		return fmt.Errorf("probe %s: %w", p.Name, err)
	}
	p.Path, p.PID = path, t.pid
	links, err := loader.AttachProbes(p)
	t.links = append(t.links, links...)
	return err
}

// close removes the probes.
func (t *target) close() error {
	var errs []error
	for _, l := range slices.Backward(t.links) { // submissions first: jobs already submitted are seen to their end
		errs = append(errs, l.Close())
	}
	t.links = nil
	t.threads()
	t.libuv = nil
	return errors.Join(errs...)
}

// detach stops following the jobs of process pid, which has ended.
func (s *session) detach(pid int) {
	s.mutex.Lock()
	t := s.targeted[pid]
	delete(s.targeted, pid)
	s.mutex.Unlock()
	if t == nil {
		return
	}
	if err := s.leave(t); err != nil {
		s.Warn(err)
	}
}

// leave removes the probes of a program that has ended, and makes the kernel forget
// its jobs.
func (s *session) leave(t *target) error {
	err := t.close()
	s.mutex.Lock()
	if lookupErr := s.objects.Pools.Lookup(t.number, &t.final); lookupErr != nil {
		err = errors.Join(err, fmt.Errorf("read the pool of process %d: %w", t.pid, lookupErr))
	}
	t.ended = time.Now()
	s.numbers.GiveBack(t.number)
	s.mutex.Unlock()
	return errors.Join(err, s.forget(t))
}

// forget removes from the kernel the jobs of a program that will never complete.
func (s *session) forget(t *target) error {
	var errs []error
	var seat bpf.AddonlatSeat
	var at uint32
	for seats := s.objects.Seats.Iterate(); seats.Next(&at, &seat); {
		if seat.Key.Generation == t.generation {
			errs = append(errs, s.objects.Seats.Put(at, &bpf.AddonlatSeat{}))
		}
	}
	var key bpf.AddonlatJobKey
	var job bpf.AddonlatJob
	var gone []bpf.AddonlatJobKey
	for jobs := s.objects.Jobs.Iterate(); jobs.Next(&key, &job); {
		if key.Generation == t.generation {
			gone = append(gone, key)
		}
	}
	for _, key := range gone {
		if err := s.objects.Jobs.Delete(&key); !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("forget the jobs of process %d: %w", t.pid, err)
	}
	return nil
}

func (s *session) detachAll() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var errs []error
	for _, t := range s.all {
		errs = append(errs, t.close())
	}
	return errors.Join(errs...)
}

// stop removes all probes, so that the counts no longer change.
func (s *session) stop() {
	if err := s.detachAll(); err != nil {
		s.Warn(err)
	}
}

// libuv's default and maximum for UV_THREADPOOL_SIZE (src/threadpool.c).
const (
	defaultPool = 4
	maxPool     = 1024
)

// poolSize returns how many threads the pool of process pid has according to its
// environment: the program may have changed that since.
func poolSize(pid int) uint64 {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return defaultPool
	}
	for _, entry := range strings.Split(string(environ), "\x00") {
		if value, ok := strings.CutPrefix(entry, "UV_THREADPOOL_SIZE="); ok {
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 {
				return 1
			}
			return uint64(min(n, maxPool))
		}
	}
	return defaultPool
}
