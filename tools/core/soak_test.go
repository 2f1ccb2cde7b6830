package core

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"ustack/testdata/nodetest"
)

// A server is testdata/programs/server.js under load.
type server struct {
	t      *testing.T
	target *nodetest.Target
	url    string
	client http.Client
}

func startServer(t *testing.T, node string) *server {
	t.Helper()
	s := &server{t: t, target: nodetest.Start(t, node, nodetest.Options{Script: "server.js"})}
	var facts struct{ Port int }
	s.target.Facts(&facts)
	s.url = fmt.Sprintf("http://127.0.0.1:%d", facts.Port)
	s.client.Timeout = patience
	return s
}

// get returns what the server answers.
func (s *server) get(path string) (string, error) {
	response, err := s.client.Get(s.url + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return string(body), err
}

// load asks the server in all ways at once until ctx is done. It returns the
// number of answers; none may be wrong.
func (s *server) load(ctx context.Context) int {
	var answers [4]int
	var group sync.WaitGroup
	for i, way := range []string{"heap", "child", "worker", "file"} {
		group.Go(func() {
			for n := 1; ctx.Err() == nil; n = n%499 + 1 {
				got, err := s.get(fmt.Sprintf("/%s/%d", way, n))
				if want := fmt.Sprint(n * n); err != nil || got != want {
					s.t.Errorf("%s of %d: %q, %v, want %s", way, n, got, err, want)
					return
				}
				answers[i]++
			}
		})
	}
	group.Wait()
	s.t.Logf("answers by heap, child, worker, file: %d", answers)
	return min(answers[0], answers[1], answers[2], answers[3])
}

// end ends the server, which must still be able to.
func (s *server) end() {
	s.t.Helper()
	if got, err := s.get("/end"); got != "end" || err != nil {
		s.t.Errorf("end: %q, %v", got, err)
	}
	if state := s.target.Wait(); !state.Success() {
		s.t.Errorf("end of the server = %v, want success", state)
	}
}

// TestServerUnderCores takes 20 cores of a server under load, or, if USTACK_SOAK
// is 1, 500 on each of three versions.
func TestServerUnderCores(t *testing.T) {
	nodetest.Root(t)
	versions, rounds := []string{"22.23.3"}, 20
	if os.Getenv("USTACK_SOAK") == "1" {
		versions, rounds = []string{"18.20.8", "22.23.3", "26.10.0"}, 500
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			s := startServer(t, nodetest.Node(t, version))
			ctx, cancel := context.WithCancel(t.Context())
			answers := make(chan int)
			go func() { answers <- s.load(ctx) }()
			fds := countFiles(t, s.target.PID)
			path := filepath.Join(t.TempDir(), "core")
			var longest time.Duration
			for i := range rounds {
				result, err := Write(t.Context(), s.target.PID, path, Options{direct: i%2 == 1, MaxStop: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				longest = max(longest, result.Stopped)
				if f := open(t, path); result.Unread > 0 || len(f.Threads()) != result.Threads {
					t.Errorf("%d pages unread, %d threads, want none and %d", result.Unread, len(f.Threads()), result.Threads)
				}
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			cancel()
			if got := <-answers; got == 0 {
				t.Error("there is a way in which nothing was answered")
			}
			t.Logf("longest stop: %v", longest)
			s.checkLeft(fds)
			s.end()
		})
	}
}

// checkLeft checks, when the load is over, that no child is left and no
// descriptor for each core.
func (s *server) checkLeft(fds int) {
	s.t.Helper()
	const slack = 15 // connections that are kept alive
	pid := s.target.PID
	for deadline := time.Now().Add(patience); children(s.t, pid) != ""; {
		if time.Now().After(deadline) {
			s.t.Fatalf("children left: %s", children(s.t, pid))
		}
	}
	if got := countFiles(s.t, pid); got > fds+slack {
		s.t.Errorf("descriptors = %d, want about %d", got, fds)
	}
}

// countFiles returns how many descriptors the process has.
func countFiles(t *testing.T, pid int) int {
	t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// children returns the children of all the process's threads.
func children(t *testing.T, pid int) string {
	t.Helper()
	tids, err := listThreads(pid)
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, tid := range tids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, tid))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	return string(all)
}
