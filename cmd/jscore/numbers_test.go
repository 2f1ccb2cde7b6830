package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestFlagsTakeNumbersOfMdb(t *testing.T) {
	for text, want := range map[string]int{"3": 3, "0t12": 12, "0x1f": 31, "0o17": 15, "0i101": 5, "-0t2": -2, "010": 10} {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		n := flags.IntP("number", "n", 7, "")
		useNumbers(flags)
		if err := flags.Parse([]string{"-n", text}); err != nil || *n != want {
			t.Errorf("-n %s: %d, %v, want %d", text, *n, err, want)
		}
	}
	for _, text := range []string{"", "-", "0t", "0x", "ten", "1.5", "--1", "99999999999999999999", "18446744073709551615"} {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.IntP("number", "n", 7, "")
		useNumbers(flags)
		if err := flags.Parse([]string{"-n", text}); err == nil {
			t.Errorf("-n %q is accepted", text)
		}
	}
}

// TestEveryNumberOfAFlagMayHaveAPrefix goes through all commands.
func TestEveryNumberOfAFlagMayHaveAPrefix(t *testing.T) {
	numbers := 0
	for _, c := range commands() {
		c.flags(new(run)).VisitAll(func(f *pflag.Flag) {
			if !strings.HasPrefix(f.Value.Type(), "int") {
				return
			}
			numbers++
			if err := f.Value.Set("0x10"); err != nil || f.Value.String() != "16" {
				t.Errorf("%s --%s 0x10 is %s, %v, want 16", c.name, f.Name, f.Value, err)
			}
			if err := f.Value.Set("0t10"); err != nil || f.Value.String() != "10" {
				t.Errorf("%s --%s 0t10 is %s, %v, want 10", c.name, f.Name, f.Value, err)
			}
		})
	}
	if numbers == 0 {
		t.Error("no command has a flag that is a number")
	}
}
