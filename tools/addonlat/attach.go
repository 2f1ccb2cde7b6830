package addonlat

import (
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
)

// A target is one program in one process.
type target struct {
	pid        int
	generation uint64
	begun      time.Time
	links      []link.Link
	last       bpf.AddonlatPool // as of the last report
}

// A place is a function at which something happens to a job.
type place struct {
	symbol  string
	program func(*bpf.AddonlatObjects) *ebpf.Program
	returns bool
	work    bpf.AddonlatWorkKind
	missing string // what is not seen without it; empty if older versions do without
}

const (
	queueWork = "uv_queue_work"
	createAPI = "napi_create_async_work"
)

func onQueue(o *bpf.AddonlatObjects) *ebpf.Program      { return o.OnQueue }
func onSubmit(o *bpf.AddonlatObjects) *ebpf.Program     { return o.OnSubmit }
func onRun(o *bpf.AddonlatObjects) *ebpf.Program        { return o.OnRun }
func onRan(o *bpf.AddonlatObjects) *ebpf.Program        { return o.OnRan }
func onDone(o *bpf.AddonlatObjects) *ebpf.Program       { return o.OnDone }
func onUring(o *bpf.AddonlatObjects) *ebpf.Program      { return o.OnUring }
func onCreate(o *bpf.AddonlatObjects) *ebpf.Program     { return o.OnCreate }
func onCreated(o *bpf.AddonlatObjects) *ebpf.Program    { return o.OnCreated }
func onQueueNamed(o *bpf.AddonlatObjects) *ebpf.Program { return o.OnQueueNamed }

// libuv are the places in libuv (src/threadpool.c, src/unix/{fs,getaddrinfo,
// getnameinfo,random-*}.c, 1.43 to 1.52), last first: a job is seen to its end
// once its submission is. All but the first are in .symtab only.
var libuv = slices.Concat(
	moments("uv__queue", bpf.AddonlatWorkKindWORK_QUEUED, "when the work of add-ons, crypto and zlib runs and completes"),
	moments("uv__fs", bpf.AddonlatWorkKindWORK_FS, "when file system operations run and complete"),
	moments("uv__getaddrinfo", bpf.AddonlatWorkKindWORK_ADDRINFO, "when DNS look-ups run and complete"),
	moments("uv__getnameinfo", bpf.AddonlatWorkKindWORK_NAMEINFO, "when reverse DNS look-ups run and complete"),
	moments("uv__random", bpf.AddonlatWorkKindWORK_RANDOM, "when random bytes are made"),
	uring("close", "fsync_or_fdatasync", "ftruncate", "link", "mkdir", "open", "read_or_write", "rename", "statx", "symlink", "unlink"),
	[]place{
		{symbol: "uv__work_submit", program: onSubmit, missing: "when file system and DNS work is submitted"},
		{symbol: queueWork, program: onQueue},
	},
)

// moments are the places of one sort of work on the pool.
func moments(prefix string, work bpf.AddonlatWorkKind, missing string) []place {
	return []place{
		{symbol: prefix + "_done", program: onDone, work: work, missing: missing},
		{symbol: prefix + "_work", program: onRan, returns: true, work: work},
		{symbol: prefix + "_work", program: onRun, work: work},
	}
}

// uring are the functions that hand a file system operation to io_uring, where
// libuv knows how (1.45).
func uring(operations ...string) []place {
	var places []place
	for _, o := range operations {
		places = append(places, place{symbol: "uv__iou_fs_" + o, program: onUring, returns: true})
	}
	return places
}

// nodeAPI are the places in node at which Node-API's works get their names.
var nodeAPI = []place{
	{symbol: createAPI, program: onCreated, returns: true},
	{symbol: createAPI, program: onCreate},
	{symbol: "napi_queue_async_work", program: onQueueNamed},
}

// attach follows the jobs of process pid, which the table has begun to look at.
func (s *session) attach(pid int) error {
	t := &target{pid: pid, generation: uint64(s.table.Generation(pid)), begun: time.Now()}
	pool := bpf.AddonlatPool{Size: poolSize(pid)}
	if err := s.objects.Pools.Put(t.generation, &pool); err != nil {
		return fmt.Errorf("tell the kernel of the pool of process %d: %w", pid, err)
	}
	err := s.attachAll(t, queueWork, libuv)
	if err == nil && s.o.By == Resource {
		err = s.attachAll(t, createAPI, nodeAPI)
	}
	if err != nil {
		return errors.Join(err, t.close())
	}
	s.mutex.Lock()
	old := s.targeted[pid]
	s.targeted[pid] = t
	s.all[t.generation] = t
	s.mutex.Unlock()
	if old != nil { // it has a new program
		return s.leave(old)
	}
	return nil
}

// attachAll probes those places that the module with symbol has.
func (s *session) attachAll(t *target, symbol string, places []place) error {
	module, err := s.table.Module(t.pid, symbol)
	if err != nil {
		return err
	}
	if module == nil {
		return fmt.Errorf("process %d has no %s: neither Node.js nor libuv is in it, or they are stripped", t.pid, symbol)
	}
	defer module.Close()
	var missing []string
	for _, p := range places {
		offset, ok := module.Offset(p.symbol)
		if !ok {
			if p.missing != "" {
				missing = append(missing, fmt.Sprintf("%s (%s)", p.missing, p.symbol))
			}
			continue
		}
		l, err := loader.AttachProbe(loader.Probe{
			Program: p.program(&s.objects), Path: module.Path(), Symbol: p.symbol, Offset: offset,
			Return: p.returns, PID: t.pid, Cookie: uint64(p.work),
		})
		if err != nil {
			return err
		}
		t.links = append(t.links, l)
	}
	if len(missing) > 0 {
		s.warn(fmt.Errorf("process %d: libuv is stripped of symbols, so it is not seen %s", t.pid, strings.Join(missing, ", ")))
	}
	return nil
}

// close takes the probes out.
func (t *target) close() error {
	var errs []error
	for _, l := range t.links {
		errs = append(errs, l.Close())
	}
	t.links = nil
	return errors.Join(errs...)
}

// detach follows the jobs of process pid no more: it has ended.
func (s *session) detach(pid int) {
	s.mutex.Lock()
	t := s.targeted[pid]
	delete(s.targeted, pid)
	s.mutex.Unlock()
	if t == nil {
		return
	}
	if err := s.leave(t); err != nil {
		s.warn(err)
	}
}

// leave takes the probes of a program that has ended out, and lets the kernel
// forget its jobs.
func (s *session) leave(t *target) error {
	err := t.close()
	var key bpf.AddonlatJobKey
	var job bpf.AddonlatJob
	var gone []bpf.AddonlatJobKey
	for jobs := s.objects.Jobs.Iterate(); jobs.Next(&key, &job); {
		if key.Generation == t.generation {
			gone = append(gone, key)
		}
	}
	for _, key := range gone {
		if deleteErr := s.objects.Jobs.Delete(&key); deleteErr != nil && !errors.Is(deleteErr, ebpf.ErrKeyNotExist) {
			err = errors.Join(err, fmt.Errorf("forget the jobs of process %d: %w", t.pid, deleteErr))
		}
	}
	return err
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

// stop takes all probes out, so that nothing is added any more.
func (s *session) stop() {
	if err := s.detachAll(); err != nil {
		s.warn(err)
	}
}

// libuv's default for UV_THREADPOOL_SIZE, and its bound (src/threadpool.c).
const (
	defaultPool = 4
	maxPool     = 1024
)

// poolSize returns how many threads the pool of process pid has, as far as its
// environment says: the program may have said something else since.
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
