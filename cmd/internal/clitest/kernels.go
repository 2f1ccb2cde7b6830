package clitest

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/testdata/nodetest"
)

// CheckKernels checks that a command, run with --pid or --cgroup, refuses to work where the
// kernel lacks what it needs: BTF and control groups of version 2, which are hidden here, and
// what the kernel of this machine lacks, if it is too old or locked down. It says so in one
// line, with a remedy, and starts nothing.
func CheckKernels(t testing.TB, pid int, command ...string) {
	t.Helper()
	nodetest.Root(t)
	hidden := func(hide string, more ...string) []string {
		all := []string{"unshare", "--mount", "sh", "-c", hide + `; exec "$@"`, "sh"}
		return slices.Concat(all, command, more)
	}
	const unmount = `grep ' - cgroup2 ' /proc/self/mountinfo | cut -d ' ' -f 5 | while read -r at; do umount -l "$at"; done`
	process := []string{"--pid", strconv.Itoa(pid)}
	able := !old(t) && !confidential()
	for _, tt := range []struct {
		here    bool
		command []string
		want    string
	}{
		{able, hidden("mount -t tmpfs none /sys/kernel/btf", process...), "the kernel has no BTF: it needs CONFIG_DEBUG_INFO_BTF"},
		{able, hidden(unmount, "--cgroup", "/any"), "no control groups of version 2 are mounted (mount"},
		{old(t), slices.Concat(command, process), "(Linux 5.15 or newer is needed"},
		{confidential(), slices.Concat(command, process), "the kernel is locked down for confidentiality"},
	} {
		if !tt.here {
			continue
		}
		out := Fails(t, exec.CommandContext(t.Context(), tt.command[0], tt.command[1:]...), tt.want)
		if strings.Count(out, "\n") != 1 || !strings.HasSuffix(out, ")\n") {
			t.Errorf("%q: output = %q, want one line that ends with a remedy", tt.command, out)
		}
	}
}

// old reports whether the kernel is older than those that the tools support.
func old(t testing.TB) bool {
	t.Helper()
	older, err := nodetest.OlderThan(5, 15)
	if err != nil {
		t.Fatal(err)
	}
	return older
}

// confidential reports whether the kernel lets no program read its memory.
func confidential() bool {
	text, err := os.ReadFile("/sys/kernel/security/lockdown")
	return err == nil && strings.Contains(string(text), "[confidentiality]")
}
