package libuv

import (
	"debug/elf"
	"maps"

	"golang.org/x/arch/x86/x86asm"
)

// What libuv's exported functions do identifies its internal ones: uv_getaddrinfo calls
// uv__work_submit with the addresses of the functions that a thread runs and that are
// called on completion. An address found this way must be a function's start, and
// everything that leads to it must agree; otherwise it is not used.

// A Function is a function's machine code.
type Function struct {
	Code    []byte
	Offset  uint64 // in the file
	Address uint64
}

// Functions returns libuv's internal functions, by libuv's names: those that are
// certain. exported returns the address of a symbol.
func (im *Image) Functions(exported func(symbol string) (address uint64, ok bool)) map[string]Function {
	all := make(map[string]Function)
	for name, address := range findLibuv(im, exported) {
		offset, _ := im.offset(address) // whatever has code has an offset
		all[name] = Function{im.code(address), offset, address}
	}
	return all
}

// A family is the exported functions that submit one sort of work.
type family struct {
	done     string // the name of the function that they have called on completion
	kind     uint64 // src/uv-common.h: enum uv__work_kind
	exported []string
}

var families = []family{
	{"uv__fs_done", 1, []string{"uv_fs_access", "uv_fs_chmod", "uv_fs_close", "uv_fs_open", "uv_fs_read", "uv_fs_stat"}},
	{"uv__getaddrinfo_done", 2, []string{"uv_getaddrinfo"}},
	{"uv__getnameinfo_done", 2, []string{"uv_getnameinfo"}},
	{"uv__random_done", 0, []string{"uv_random"}},
}

// uringOperations are the file operations that may use io_uring: by the name of libuv's
// function that submits them, an exported one that calls it.
var uringOperations = map[string]string{
	"close": "uv_fs_close", "fsync_or_fdatasync": "uv_fs_fsync", "ftruncate": "uv_fs_ftruncate", "link": "uv_fs_link",
	"mkdir": "uv_fs_mkdir", "open": "uv_fs_open", "read_or_write": "uv_fs_read", "rename": "uv_fs_rename",
	"statx": "uv_fs_stat", "symlink": "uv_fs_symlink", "unlink": "uv_fs_unlink",
}

// Names of libuv's functions (src/threadpool.c).
const (
	QueueWork  = "uv_queue_work"   // exported: submits what add-ons, crypto and zlib do
	WorkSubmit = "uv__work_submit" // submits everything
	Worker     = "worker"          // is what the pool's threads run
	WorkDone   = "uv__work_done"   // delivers completed jobs on the event loop
	QueueDone  = "uv__queue_done"  // completes what QueueWork has submitted
)

const (
	slowIO     = 2  // UV__WORK_SLOW_IO, the highest kind
	queuedDone = 96 // uv_work_t.work_req.done (include/uv.h)
)

// A finder finds libuv's internal functions in an image.
type finder struct {
	*Image
	exported func(symbol string) (address uint64, ok bool)
	found    map[string]uint64 // addresses by libuv's names
}

// findLibuv returns where libuv's internal functions start: those that are certain.
func findLibuv(im *Image, exported func(string) (uint64, bool)) map[string]uint64 {
	f := &finder{im, exported, make(map[string]uint64)}
	if !f.findSubmit() {
		return nil
	}
	f.findQueued()
	f.findWorker()
	f.findDelivery()
	for operation, symbol := range uringOperations {
		f.findUring("uv__iou_fs_"+operation, symbol)
	}
	return f.found
}

// A submission is a call of uv__work_submit(loop, w, kind, work, done).
type submission struct{ submit, kind, done uint64 }

// findSubmit finds uv__work_submit and the completion functions passed to it. It
// reports whether at least two sorts of work agree on it.
func (f *finder) findSubmit() bool {
	agree := 0
	for _, s := range families {
		seen := make(map[submission]bool)
		for _, symbol := range s.exported {
			for _, call := range f.submissions(symbol) {
				seen[call] = true
			}
		}
		for call := range seen {
			before, ok := f.found[WorkSubmit]
			if len(seen) > 1 || call.kind != s.kind || ok && before != call.submit {
				return false
			}
			f.found[WorkSubmit], f.found[s.done] = call.submit, call.done
			agree++
		}
	}
	return agree > 1
}

// submissions returns those that an exported function makes, or else those of the
// functions that it calls: uv_fs_*() may leave it to uv__fs_post().
func (f *finder) submissions(symbol string) []submission {
	address, ok := f.exported(symbol)
	if !ok {
		return nil
	}
	t := f.trace(address)
	all := f.submissionsOf(t)
	for i := 0; i < len(t.calls) && all == nil; i++ {
		all = f.submissionsOf(f.trace(t.calls[i].target))
	}
	return all
}

func (f *finder) submissionsOf(t effects) (all []submission) {
	for _, c := range t.calls {
		kind, work, done := c.arguments[2], c.arguments[3], c.arguments[4]
		if kind.of == number && kind.n <= slowIO && f.isFunction(work) && f.isFunction(done) && f.starts(c.target) {
			all = append(all, submission{c.target, kind.n, done.n})
		}
	}
	return all
}

func (f *finder) isFunction(v value) bool { return v.of == number && f.starts(v.n) }

// findQueued finds uv__queue_done, which uv_queue_work passes to uv__work_submit or,
// if that is inlined, stores after the first part of its request.
func (f *finder) findQueued() {
	t := f.traceOf(QueueWork)
	var done []uint64
	for _, call := range f.submissionsOf(t) {
		if call.submit == f.found[WorkSubmit] {
			done = append(done, call.done)
		}
	}
	for _, s := range t.stores {
		if s.to == (value{argument + 1, queuedDone}) && f.isFunction(s.what) {
			done = append(done, s.what.n)
		}
	}
	if len(done) == 1 {
		f.found[QueueDone] = done[0]
	}
}

// findDelivery finds uv__work_done, which uv_loop_init passes to uv_async_init, if it
// refers to uv__queue_done: otherwise it calls what each job stores for that.
func (f *finder) findDelivery() {
	found := make(map[uint64]bool)
	for _, c := range f.traceOf("uv_loop_init").calls {
		if to := c.arguments[2]; f.isFunction(to) && f.mentions(to.n)[f.found[QueueDone]] {
			found[to.n] = true
		}
	}
	for address := range found {
		if len(found) == 1 {
			f.found[WorkDone] = address
		}
	}
}

// findWorker finds worker, which the pool's threads run. The function passed to
// uv_once refers to it, or a function that that one calls.
func (f *finder) findWorker() {
	once := f.once(QueueWork)
	if once == 0 {
		return
	}
	mentioned := f.mentions(once)
	for _, c := range f.trace(once).calls {
		maps.Copy(mentioned, f.mentions(c.target))
	}
	var workers []uint64
	for address := range mentioned {
		if _, ok := (Site{Function{Code: f.code(address)}, f.file.Machine}).Call(); ok {
			workers = append(workers, address)
		}
	}
	if len(workers) == 1 {
		f.found[Worker] = workers[0]
	}
}

// once returns the function passed to uv_once, from the first call uv_once(guard, function).
func (f *finder) once(symbol string) uint64 {
	for _, c := range f.traceOf(symbol).calls {
		if c.arguments[0].of == number && f.isFunction(c.arguments[1]) {
			return c.arguments[1].n
		}
	}
	return 0
}

// mentions returns the functions whose addresses the code of the function at address uses.
func (im *Image) mentions(address uint64) map[uint64]bool {
	if im.file.Machine == elf.EM_AARCH64 {
		return im.mentionsARM(address)
	}
	all := make(map[uint64]bool)
	for at, inst := range instructions(im.code(address)) {
		for _, operand := range inst.Args {
			var v uint64
			switch o := operand.(type) {
			case x86asm.Imm:
				v = uint64(o)
			case x86asm.Mem:
				if isFixed(o) {
					v = address + uint64(at+inst.Len) + distance(o)
				}
			}
			if im.starts(v) {
				all[v] = true
			}
		}
	}
	return all
}

// findUring finds what an exported function calls with its own first two arguments,
// loop and request, other than the submission.
func (f *finder) findUring(name, symbol string) {
	own := [2]value{{of: argument}, {of: argument + 1}}
	seen := make(map[uint64]bool)
	for _, c := range f.traceOf(symbol).calls {
		if [2]value(c.arguments[:2]) == own && f.starts(c.target) && len(f.submissionsOf(f.trace(c.target))) == 0 {
			seen[c.target] = true
		}
	}
	for target := range seen {
		if len(seen) == 1 {
			f.found[name] = target
		}
	}
}

func (f *finder) traceOf(symbol string) effects {
	address, ok := f.exported(symbol)
	if !ok {
		return effects{}
	}
	return f.trace(address)
}
