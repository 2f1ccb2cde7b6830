package kernels

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// guestLimit is how long all groups may take: what a machine does in minutes takes an
// emulated one ten times as long.
const guestLimit = 100 * time.Minute

const guestMemory = 5 << 10 // MiB: its file system is in it

// guestCPU has no AVX, which is slow to emulate, and so is what a kernel does against the
// faults of CPUs: an emulated one has none.
const (
	guestCPU    = "max,la57=off,-avx,-avx2,-fma,-f16c"
	guestKernel = "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check rdinit=/init"
)

// boot runs groups, by their numbers, on a kernel and the archive of a Root, and calls line
// with what the machine prints.
func boot(ctx context.Context, kernel, archive string, groups []string, line func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, guestLimit)
	defer cancel()
	// One CPU: what emulates several has had kernels stumble over patched code.
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", "tcg", "-cpu", guestCPU, "-smp", "1",
		"-m", strconv.Itoa(guestMemory), "-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-kernel", kernel, "-initrd", archive, "-append", guestKernel+" groups="+strings.Join(groups, ","))
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := eachLine(out, line)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("run the virtual machine: %w: %s", err, said.String())
	}
	return readErr
}

// longestLine is how much is kept of a line.
const longestLine = 1 << 12

// eachLine calls line with each line of in, cut off where it is too long.
func eachLine(in io.Reader, line func(string)) error {
	lines := bufio.NewReaderSize(in, longestLine)
	for rest := false; ; {
		text, more, err := lines.ReadLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !rest {
			line(strings.TrimRight(string(text), "\r"))
		}
		rest = more
	}
}

// A Report is what a machine printed.
type Report struct {
	Groups map[int]*Outcome
	group  *Outcome // that runs
}

// An Outcome is what became of a group.
type Outcome struct {
	Passed, Failed, Skipped []string // tests
	Lacking                 int      // tests that were skipped because the kernel is too old for what they test
	Ended                   bool
	Status                  int
}

var (
	beginLine = regexp.MustCompile(`^@ begin (\d+)$`)
	endLine   = regexp.MustCompile(`^@ end (\d+) (\d+)$`)
	testLine  = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+)`)
)

// Line reads a line that the machine prints.
func (r *Report) Line(text string) {
	number := func(text string) int {
		n, _ := strconv.Atoi(text) // digits
		return n
	}
	switch {
	case beginLine.MatchString(text):
		r.group = &Outcome{}
		if r.Groups == nil {
			r.Groups = map[int]*Outcome{}
		}
		r.Groups[number(beginLine.FindStringSubmatch(text)[1])] = r.group
	case endLine.MatchString(text):
		if o := r.Groups[number(endLine.FindStringSubmatch(text)[1])]; o != nil {
			o.Ended, o.Status = true, number(endLine.FindStringSubmatch(text)[2])
		}
	case r.group != nil:
		r.group.line(text)
	}
}

func (o *Outcome) line(text string) {
	if strings.Contains(text, lacksMark) {
		o.Lacking++
	}
	m := testLine.FindStringSubmatch(text)
	if m == nil {
		return
	}
	to := map[string]*[]string{"PASS": &o.Passed, "FAIL": &o.Failed, "SKIP": &o.Skipped}[m[1]]
	*to = append(*to, m[2])
}

// lacksMark is what nodetest.Since says.
const lacksMark = "the kernel has that since Linux "

// Err returns why the group does not show that what it tests works; nil if it does. Tests may
// only be skipped for what the kernel is too old for.
func (o *Outcome) Err() error {
	switch {
	case o == nil:
		return fmt.Errorf("it did not begin")
	case !o.Ended:
		return fmt.Errorf("it did not end: %d tests passed before", len(o.Passed))
	case len(o.Failed) > 0:
		return fmt.Errorf("failed: %s", strings.Join(o.Failed, ", "))
	case o.Status != 0:
		return fmt.Errorf("it ended with status %d", o.Status)
	case len(o.Passed) == 0:
		return fmt.Errorf("no test ran")
	case len(o.Skipped) > o.Lacking:
		return fmt.Errorf("skipped: %s", strings.Join(o.Skipped, ", "))
	}
	return nil
}
