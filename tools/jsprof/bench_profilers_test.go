package jsprof

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ours is the name of the profiler under test; the others are for comparison.
const ours = "jsprof"

// A profiler is a command that samples at 99 Hz until it is killed.
type profiler struct {
	name    string
	mark    string // in the line that says it is sampling
	command func(order) *exec.Cmd
}

// An order says what to profile.
type order struct {
	pid    string
	dir    string   // for output files
	say    *os.File // receives the line with the mark
	listen *os.File // yields the line "enable"
}

// profilers returns our profiler, which is at path, and the others that are installed.
func profilers(b *testing.B, path string) []profiler {
	b.Helper()
	all := []profiler{{ours, "Sampling", func(o order) *exec.Cmd {
		cmd := exec.Command(path, "-p", o.pid, "-o", filepath.Join(o.dir, "out.json"))
		cmd.Stderr = o.say
		return cmd
	}}}
	if installed(b, "perf") {
		all = append(all, profiler{"perf", "ack", func(o order) *exec.Cmd {
			// perf announces its start only to whoever controls it.
			cmd := exec.Command("perf", "record", "-q", "-g", "-F", "99", "-p", o.pid,
				"--delay=-1", "--control", "fd:3,4", "-o", filepath.Join(o.dir, "perf.data"))
			cmd.ExtraFiles = []*os.File{o.listen, o.say}
			return cmd
		}})
	}
	if installed(b, "bpftrace") {
		all = append(all, profiler{"bpftrace", "started", func(o order) *exec.Cmd {
			cmd := exec.Command("bpftrace", "-B", "line", "-e", fmt.Sprintf(
				`BEGIN { printf("started\n"); } profile:hz:99 /pid == %s/ { @[ustack()] = count(); }`, o.pid))
			cmd.Stdout = o.say
			return cmd
		}})
	}
	return all
}

func installed(b *testing.B, name string) bool {
	b.Helper()
	if _, err := exec.LookPath(name); err != nil {
		b.Logf("not compared with %s: %v", name, err)
		return false
	}
	return true
}

// build builds the command as it is released and returns its path.
func build(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), ours)
	cmd := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-o", path, "ustack/cmd/jsprof")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("build jsprof: %v\n%s", err, out)
	}
	return path
}

// A run is a profiler that is sampling.
type run struct {
	b      *testing.B
	cmd    *exec.Cmd
	orders *os.File
	said   chan struct{} // closed when all its output has been read
}

// start waits until the profiler samples process pid, and returns how long that took.
func (p profiler) start(b *testing.B, pid int) (*run, time.Duration) {
	b.Helper()
	hear, say := pipe(b)
	listen, orders := pipe(b)
	if _, err := io.WriteString(orders, "enable\n"); err != nil {
		b.Fatal(err)
	}
	cmd := p.command(order{fmt.Sprint(pid), b.TempDir(), say, listen})
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	_, _ = say.Close(), listen.Close() // the command has its own copies
	r := &run{b, cmd, orders, make(chan struct{})}
	lines := bufio.NewScanner(hear)
	for lines.Scan() {
		if strings.Contains(lines.Text(), p.mark) {
			took := time.Since(begin)
			go func() {
				defer close(r.said)
				_, _ = io.Copy(io.Discard, hear) // until the command ends
				_ = hear.Close()
			}()
			return r, took
		}
	}
	b.Fatalf("%s ended before it sampled: %v", p.name, cmd.Wait())
	return nil, 0
}

func pipe(b *testing.B) (r, w *os.File) {
	b.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	return r, w
}

// cpu returns the CPU time that the profiler has used so far.
func (r *run) cpu() time.Duration {
	r.b.Helper()
	const scheduled = 2 // CPUCLOCK_SCHED: a process's clock is the complement of its pid, shifted
	var now unix.Timespec
	if err := unix.ClockGettime(int32(^r.cmd.Process.Pid<<3|scheduled), &now); err != nil {
		r.b.Errorf("read the CPU time of %s: %v", r.cmd.Path, err)
	}
	return time.Duration(now.Nano())
}

// peakRSS returns the most memory that the profiler has used so far, in MB. The
// figure that wait4 reports starts at the memory of the process that forked.
func (r *run) peakRSS() float64 {
	r.b.Helper()
	const kB = 1024
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid))
	if err != nil {
		r.b.Error(err)
	}
	_, line, _ := strings.Cut(string(status), "VmHWM:")
	var peak float64
	if _, err := fmt.Sscan(line, &peak); err != nil {
		r.b.Errorf("read the memory of %s: %v", r.cmd.Path, err)
	}
	return peak * kB / 1e6
}

// stop kills the profiler at once: what it does with its samples afterwards is not
// measured, and takes bpftrace minutes.
func (r *run) stop() {
	r.b.Helper()
	if err := r.cmd.Process.Kill(); err != nil {
		r.b.Errorf("stop %s: %v", r.cmd.Path, err)
	}
	<-r.said
	_ = r.cmd.Wait() // it was killed
	_ = r.orders.Close()
}
