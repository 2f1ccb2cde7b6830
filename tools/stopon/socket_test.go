package stopon

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
)

// TestAddressesAreDecoded: the addresses that a program gives to system calls, and
// those behind the descriptors that it works on.
func TestAddressesAreDecoded(t *testing.T) {
	nodetest.Root(t)
	for _, version := range shortVersions() {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			target := startTrouble(t, version, "sockets")
			r := watch(t, target, Options{Syscalls: []string{"bind", "connect", "accept4", "read", "write"}})
			done := perform(t, target)
			wants := [][]string{
				{"bind(fd=", ", 127.0.0.1:0) = 0"},
				{"bind(fd=", ", [::1]:0) = 0"},
				{"bind(fd=", fmt.Sprintf(", %q) = 0", done.Path)},
				{"connect(fd=", fmt.Sprintf(", 127.0.0.1:%d) = ", done.Port)},
				{"connect(fd=", fmt.Sprintf(", [::1]:%d) = ", done.Port6)},
				{"connect(fd=", fmt.Sprintf(", %q) = 0", done.Path)},
				{"accept4(fd=", " → 127.0.0.1:"},
				{"accept4(fd=", " → [::1]:"},
				{"read(fd=", fmt.Sprintf(" → 127.0.0.1:%d, buf=", done.Port)},
				{"read(fd=", fmt.Sprintf(" → [::1]:%d, buf=", done.Port6)},
				{"read(fd=", fmt.Sprintf(" → %q, buf=", done.Path)},
				{"write(fd=", " → 127.0.0.1:"},
			}
			missing := func(hits []*Hit) [][]string {
				return slices.DeleteFunc(slices.Clone(wants), func(want []string) bool {
					return slices.ContainsFunc(hits, func(h *Hit) bool {
						return strings.HasPrefix(h.Event, want[0]) && strings.Contains(h.Event, want[1])
					})
				})
			}
			hits := r.endWhen(func(hits []*Hit) bool { return len(missing(hits)) == 0 })
			for _, want := range missing(hits) {
				t.Errorf("no %s…%s among:", want[0], want[1])
			}
			if t.Failed() {
				for _, h := range hits {
					t.Log(h.Event)
				}
			}
		})
	}
}

// TestStallsEndIsReported with the length of all of it.
func TestStallsEndIsReported(t *testing.T) {
	nodetest.Root(t)
	const blocked = 300 * time.Millisecond
	for _, version := range shortVersions() {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			target := startTrouble(t, version, "stallend")
			ends := make(chan *Hit, 100)
			r := watch(t, target, Options{Stall: 100 * time.Millisecond, Ended: func(h *Hit) error {
				ends <- h
				return nil
			}})
			target.Signal(unix.SIGUSR2)
			limit := time.After(hitLimit)
			for {
				select {
				case end := <-ends:
					if end.Duration < blocked { // it had no CPU for long
						continue
					}
					hits := r.end(1)
					if !slices.ContainsFunc(hits, func(h *Hit) bool {
						return h.Number == end.Number && h.Duration < end.Duration && slices.Contains(javascript(h), "guilty")
					}) {
						t.Errorf("stalls = %+v, want one with the number of %+v under guilty", hits, end)
					}
					return
				case <-limit:
					t.Fatal("the end of the stall is not reported")
				}
			}
		})
	}
}
