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
	last       bpf.AddonlatPool // at the last report
	ended      time.Time        // zero until then
	final      bpf.AddonlatPool // at that time
}

// A place is a function at whose entry or return something happens to a job.
type place struct {
	symbol    string
	program   func(*bpf.AddonlatObjects) *ebpf.Program
	arguments int // that the program reads, of the first four
	returns   bool
	work      bpf.AddonlatWorkKind
	missing   string // what is not measured without it; empty if older versions do not have it
}

const (
	checkInit = "uv_check_init" // exported wherever libuv is
	createAPI = "napi_create_async_work"
)

func onQueue(o *bpf.AddonlatObjects) *ebpf.Program      { return o.OnQueue }
func onSubmit(o *bpf.AddonlatObjects) *ebpf.Program     { return o.OnSubmit }
func onDone(o *bpf.AddonlatObjects) *ebpf.Program       { return o.OnDone }
func onInit(o *bpf.AddonlatObjects) *ebpf.Program       { return o.OnInit }
func onUring(o *bpf.AddonlatObjects) *ebpf.Program      { return o.OnUring }
func onCreate(o *bpf.AddonlatObjects) *ebpf.Program     { return o.OnCreate }
func onCreated(o *bpf.AddonlatObjects) *ebpf.Program    { return o.OnCreated }
func onQueueNamed(o *bpf.AddonlatObjects) *ebpf.Program { return o.OnQueueNamed }

// uvPlaces are the places in libuv (src/threadpool.c, src/unix/{fs,getaddrinfo,
// getnameinfo,random-*}.c, 1.43 to 1.52), last first: a job whose submission is seen
// is then seen to its end. All but uv_queue_work are in .symtab only; without symbols,
// the package libuv finds them.
var uvPlaces = slices.Concat(
	[]place{
		{symbol: libuv.QueueDone, program: onDone, arguments: 2, work: bpf.AddonlatWorkKindWORK_QUEUED, missing: "when the work of add-ons, crypto and zlib completes"},
		{symbol: "uv__fs_done", program: onDone, arguments: 2, work: bpf.AddonlatWorkKindWORK_FS, missing: "when file system operations complete"},
		{symbol: "uv__getaddrinfo_done", program: onDone, arguments: 2, work: bpf.AddonlatWorkKindWORK_ADDRINFO, missing: "when DNS look-ups complete"},
		{symbol: "uv__getnameinfo_done", program: onDone, arguments: 2, work: bpf.AddonlatWorkKindWORK_NAMEINFO, missing: "when reverse DNS look-ups complete"},
		{symbol: "uv__random_done", program: onDone, arguments: 2, work: bpf.AddonlatWorkKindWORK_RANDOM, missing: "when random bytes are complete"},
	},
	uring("close", "fsync_or_fdatasync", "ftruncate", "link", "mkdir", "open", "read_or_write", "rename", "statx", "symlink", "unlink"),
	[]place{
		{symbol: checkInit, program: onInit},
		{symbol: libuv.WorkSubmit, program: onSubmit, arguments: 4, missing: "when file system and DNS work is submitted"},
		{symbol: libuv.QueueWork, program: onQueue, arguments: 4},
	},
)

// uring are the functions that hand a file system operation to io_uring, in versions
// of libuv that can (1.45).
func uring(operations ...string) []place {
	var places []place
	for _, o := range operations {
		places = append(places, place{symbol: "uv__iou_fs_" + o, program: onUring, returns: true})
	}
	return places
}

// nodeAPI are the places in node at which Node-API work gets its name.
var nodeAPI = []place{
	{symbol: createAPI, program: onCreated, returns: true},
	{symbol: createAPI, program: onCreate, arguments: 4},
	{symbol: "napi_queue_async_work", program: onQueueNamed, arguments: 2},
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
func (t *target) cookie(place int) uint64 { return uint64(place)<<32 | uint64(t.number) }

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
	all := functionsOf(t.libuv)
	missing, err := s.attachWorker(t, all)
	if err != nil {
		return err
	}
	more, err := s.attachAll(t, all, uvPlaces)
	if err != nil {
		return err
	}
	inlined, err := s.attachInlined(t, all)
	if err != nil {
		return err
	}
	missing = append(missing, inlined...)
	if missing = append(missing, more...); len(missing) > 0 {
		s.Warn(fmt.Errorf("process %d: libuv is stripped of symbols, or not built as usual, so it is not seen %s", t.pid, strings.Join(missing, ", ")))
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
	_, err = s.attachAll(t, functions{Module: node}, nodeAPI)
	return err
}

var errNoLibuv = errors.New("neither Node.js nor libuv is in it, or they are stripped of all symbols")

func (s *session) module(pid int, symbol string) (*trace.Module, error) {
	module, err := s.Table.Module(pid, symbol)
	if err == nil && module == nil {
		err = fmt.Errorf("process %d has no %s: %w", pid, symbol, errNoLibuv)
	}
	return module, err
}

// attachWorker probes the places where the pool's threads call a job and return from it.
func (s *session) attachWorker(t *target, all functions) (missing []string, err error) {
	f := all.site(libuv.Worker)
	c, ok := f.Call()
	if !ok {
		return []string{"when work runs (" + libuv.Worker + ")"}, nil
	}
	for _, p := range []struct {
		program *ebpf.Program
		at      int
	}{{s.objects.OnRan, c.After}, {s.objects.OnRun, c.Before}} {
		point := loader.Point{Offset: f.Offset + uint64(p.at), Cookie: t.cookie(c.Register)}
		if err := t.probe(all.Module, loader.Probes{Program: p.program, Name: libuv.Worker, Points: []loader.Point{point}}); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// Parts of a place's number in the cookie of a probe on a completion: which kind of
// work it is for and, where no function is called for it, which register holds an
// address in the job, and its offset there.
const (
	byRegister    = 1 << 8
	registerShift = 9
	offsetShift   = 16
)

// attachInlined probes the places where queued work completes without a call, if libuv
// was compiled that way.
func (s *session) attachInlined(t *target, all functions) (missing []string, err error) {
	done, f := all.named(libuv.QueueDone), all.site(libuv.WorkDone)
	if done.Code == nil || f.Code == nil {
		return nil, nil
	}
	c, found, mentioned := f.Completion(done.Address)
	switch {
	case mentioned && !found:
		t.unseen = true
		return []string{fmt.Sprintf("%s (%s within %s)", uvPlaces[0].missing, libuv.QueueDone, libuv.WorkDone)}, nil
	case !found:
		return nil, nil
	}
	place := int(bpf.AddonlatWorkKindWORK_QUEUED) | byRegister | c.Register<<registerShift | int(c.Offset)<<offsetShift
	point := loader.Point{Offset: f.Offset + uint64(c.At), Cookie: t.cookie(place)}
	return nil, t.probe(all.Module, loader.Probes{Program: s.objects.OnDone, Name: libuv.WorkDone, Points: []loader.Point{point}})
}

// attachAll probes those places that the module has, and returns what is not measured
// because of those it lacks.
func (s *session) attachAll(t *target, all functions, places []place) (missing []string, err error) {
	for len(places) > 0 {
		first := places[0]
		probes := loader.Probes{Program: first.program(&s.objects), Name: first.symbol, Return: first.returns}
		for len(places) > 0 && places[0].program(&s.objects) == probes.Program {
			p := places[0]
			places = places[1:]
			f := all.site(p.symbol)
			if f.Code == nil {
				if p.missing != "" {
					t.unseen = t.unseen || probes.Program == s.objects.OnDone
					missing = append(missing, fmt.Sprintf("%s (%s)", p.missing, p.symbol))
				}
				continue
			}
			if !p.returns {
				f.Offset += uint64(f.Entry(p.arguments))
			}
			probes.Points = append(probes.Points, loader.Point{Offset: f.Offset, Cookie: t.cookie(int(p.work))})
		}
		if len(probes.Points) == 0 {
			continue
		}
		if err := t.probe(all.Module, probes); err != nil {
			return nil, err
		}
	}
	return missing, nil
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
