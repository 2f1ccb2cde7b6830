package cli

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/tools/event"
)

func TestConditions(t *testing.T) {
	var c Conditions
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.Register(flags)
	if err := flags.Parse([]string{"--errno", "EBADF,2", "--ret", "<0", "--arg", "2 >4096", "--fd", "3", "--path", "/tmp/*", "--slower", "5ms"}); err != nil {
		t.Fatal(err)
	}
	got, err := c.Predicate()
	want := event.Predicate{
		Errnos: []unix.Errno{unix.EBADF, unix.ENOENT}, Path: "/tmp/*", Slower: 5 * time.Millisecond,
		Conditions: []event.Condition{
			{Of: event.OfResult, Comparison: event.Comparison{Is: bpf.TraceComparisonLESS}},
			{Of: 2, Comparison: event.Comparison{Is: bpf.TraceComparisonGREATER, Value: 4096}},
			{Of: event.OfDescriptor, Comparison: event.Comparison{Is: bpf.TraceComparisonEQUAL, Value: 3}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("conditions (-want +got):\n%s%v", diff, err)
	}
}

func TestConditionsThatAreNone(t *testing.T) {
	for _, arguments := range [][]string{
		{"--errno", "ENONE"}, {"--ret", "small"}, {"--arg", "6 >1"}, {"--arg", "one"}, {"--arg", "1"}, {"--fd", "first"},
	} {
		var c Conditions
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		c.Register(flags)
		if err := flags.Parse(arguments); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Predicate(); !errors.Is(err, ErrUsage) {
			t.Errorf("%v: err = %v, want one about usage", arguments, err)
		}
	}
}

func TestParseComparison(t *testing.T) {
	is := func(c bpf.TraceComparison, value int64) event.Comparison {
		return event.Comparison{Is: c, Value: value}
	}
	for text, want := range map[string]event.Comparison{
		"3":                     is(bpf.TraceComparisonEQUAL, 3),
		"==3":                   is(bpf.TraceComparisonEQUAL, 3),
		"= 3":                   is(bpf.TraceComparisonEQUAL, 3),
		"-1":                    is(bpf.TraceComparisonEQUAL, -1),
		"!=0":                   is(bpf.TraceComparisonNOT_EQUAL, 0),
		"<0":                    is(bpf.TraceComparisonLESS, 0),
		"<=-4096":               is(bpf.TraceComparisonLESS_OR_EQUAL, -4096),
		" > 0x10 ":              is(bpf.TraceComparisonGREATER, 16),
		">=9223372036854775807": is(bpf.TraceComparisonGREATER_OR_EQUAL, math.MaxInt64),
	} {
		if got, ok := ParseComparison(text); !ok || got != want {
			t.Errorf("ParseComparison(%q) = %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "<", "=<3", "<>3", "three", "3 4", "9223372036854775808", "1e3"} {
		if got, ok := ParseComparison(text); ok {
			t.Errorf("ParseComparison(%q) = %v, want none", text, got)
		}
	}
}

func TestParseErrno(t *testing.T) {
	for text, want := range map[string]unix.Errno{"EBADF": unix.EBADF, "ebadf": unix.EBADF, "9": unix.EBADF, "133": unix.EHWPOISON} {
		if got, ok := parseErrno(text); !ok || got != want {
			t.Errorf("parseErrno(%q) = %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "E", "ENONE", "0", "134", "-9"} {
		if got, ok := parseErrno(text); ok {
			t.Errorf("parseErrno(%q) = %v, want none", text, got)
		}
	}
	for _, name := range errnoNames() {
		if e, ok := parseErrno(name); !ok || unix.ErrnoName(e) != name {
			t.Errorf("parseErrno(%q) = %v, %v, want itself", name, e, ok)
		}
	}
}
