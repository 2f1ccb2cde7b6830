package libuv

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// library is a small libuv, whose exported functions identify the internal ones.
const library = `
#define NOIPA __attribute__((noipa))
typedef void (*fn)(void *, int);
extern void post(void *, void *, int, fn, fn);
extern void once(void *, void (*)(void)), start_thread(void (*)(void *)), lock(void *), unlock(void *), async_init(void *, void *, fn);
static int guard;
static NOIPA void work(void *w, int s) { lock(w); }
static NOIPA void queue_done(void *w, int s) { unlock(w); }
static NOIPA void addrinfo_done(void *w, int s) { lock(w), unlock(w); }
static NOIPA void random_done(void *w, int s) { unlock(w), lock(w); }
struct job { void (*work)(struct job *), *done, *loop; void *link[2]; };
static NOIPA void worker(void *arg) {
	for (;;) {
		void **link = ((void ***)arg)[1];
		lock(arg);
		unlock(arg);
		struct job *j = (struct job *)((char *)link - 24);
		j->work(j);
		lock(arg);
		if (!link) break;
	}
}
static NOIPA void init_once(void) { start_thread(worker); }
static NOIPA void submit(void *loop, void *w, int kind, fn work, fn done) {
	once(&guard, init_once);
	post(loop, w, kind, work, done);
}
void uv_queue_work(void *loop, void *w) { once(&guard, init_once); submit(loop, w, 0, work, queue_done); lock(w); }
void uv_getaddrinfo(void *loop, void *w) { submit(loop, w, ADDRINFO_KIND, work, addrinfo_done); lock(w); }
void uv_random(void *loop, void *w) { RANDOM_SUBMIT(loop, w, 0, work, random_done); lock(w); }
`

// build compiles the library with some of its parts defined.
func build(t *testing.T, defines map[string]string) (*Image, func(string) (uint64, bool)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "libuv.so")
	args := []string{"-O1", "-fno-omit-frame-pointer", "-fno-ipa-icf", "-shared", "-fPIC", "-x", "c", "-o", path, "-"}
	for name, value := range defines {
		args = append(args, "-D", name+"="+value)
	}
	cmd := exec.CommandContext(t.Context(), "gcc", args...)
	cmd.Stdin = strings.NewReader(library)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	return openFile(t, path)
}

// TestFunctionsMustAgree: nothing is found unless two sorts of work lead to the same
// function, with the kinds that they have in every libuv.
func TestFunctionsMustAgree(t *testing.T) {
	for name, test := range map[string]struct {
		defines map[string]string
		want    map[string]string // this libuv's names, by libuv's own
	}{
		"agree": {
			map[string]string{"ADDRINFO_KIND": "2", "RANDOM_SUBMIT": "submit"},
			map[string]string{
				WorkSubmit: "submit", Worker: "worker", QueueDone: "queue_done",
				"uv__getaddrinfo_done": "addrinfo_done", "uv__random_done": "random_done",
			},
		},
		"another kind":             {map[string]string{"ADDRINFO_KIND": "1", "RANDOM_SUBMIT": "submit"}, nil},
		"one only":                 {map[string]string{"ADDRINFO_KIND": "2", "RANDOM_SUBMIT": "post"}, nil},
		"no kind of work":          {map[string]string{"ADDRINFO_KIND": "7", "RANDOM_SUBMIT": "submit"}, nil},
		"a kind that is not known": {map[string]string{"ADDRINFO_KIND": "(int)(long)w", "RANDOM_SUBMIT": "submit"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			im, exported := build(t, test.defines)
			want, got := make(map[string]uint64), make(map[string]uint64)
			for known, own := range test.want {
				want[known] = symbol(t, im, own)
			}
			for name, f := range im.Functions(exported) {
				got[name] = f.Address
				if len(f.Code) == 0 || f.Offset == 0 {
					t.Errorf("%s has %d bytes of code at %#x, want some", name, len(f.Code), f.Offset)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("functions (-want +got):\n%s", diff)
			}
		})
	}
}
