package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ustack/cmd/internal/cli"
	"ustack/symbolize/v8"
	"ustack/tools/jscore"
)

// words are addresses, as a result.
type words []v8.Value

func (w words) WriteText(to io.Writer) error {
	for _, word := range w {
		if _, err := fmt.Fprintf(to, "%x\n", uint64(word)); err != nil {
			return err
		}
	}
	return nil
}

func (w words) Addresses() []v8.Value { return w }

// fakes are commands that need no dump.
func fakes() registry {
	return registry{
		{
			name: "find", usage: "[-n COUNT]", short: "find some",
			bind: func(flags *pflag.FlagSet) run {
				count := flags.IntP("number", "n", 3, "so many")
				return once(func(context.Context, *invocation) (words, error) {
					found := words{}
					for i := range *count {
						found = append(found, v8.Value(16*(i+1)))
					}
					return found, nil
				})
			},
		},
		{
			name: "tag", aliases: []string{"t"}, input: required, counted: true, short: "tag them",
			bind: plain(each(func(_ context.Context, v *invocation, address v8.Value) (words, error) {
				if address == 32 {
					return nil, errors.New("it is bad")
				}
				return words{tagged(address) + v8.Value(v.count)}, nil
			})),
		},
		{
			name: "say", args: -1, short: "say the arguments",
			bind: plain(once(func(_ context.Context, v *invocation) (nameList, error) { return v.args, nil })),
		},
		{
			name: "break", short: "panic",
			bind: plain(func(context.Context, *invocation) error { panic("broken") }),
		},
		{
			name: "never", short: "do not end",
			bind: plain(func(ctx context.Context, _ *invocation) error { <-ctx.Done(); return ctx.Err() }),
		},
	}
}

// fakeSession returns a session of the fakes, with what it prints and says.
func fakeSession(json bool) (s *session, out, said *bytes.Buffer) {
	out, said = new(bytes.Buffer), new(bytes.Buffer)
	cmd := &cobra.Command{Use: "jscore"}
	cmd.SetErr(said)
	return &session{
		commands: fakes(), messages: cli.NewMessages(cmd),
		output: output{stdout: out, stderr: said, json: json},
	}, out, said
}

func TestLinesAreRun(t *testing.T) {
	const bad = "jscore: tag 20: it is bad\n"
	for _, tt := range []struct {
		line, want, said string
		status           int
		json             string
	}{
		{"", "", "", 0, ""},
		{"find", "10\n20\n30\n", "", 0, "[16,32,48]\n"},
		{"find | tag", "11\n31\n", bad, 1, "[\n[17],\n[49]\n]\n"},
		{"::find -n1 | ::t", "11\n", "", 0, "[\n[17]\n]\n"},
		{"find -n 0 | tag", "", "", 0, "[]\n"},
		{"tag 0x40", "41\n", "", 0, "[65]\n"},
		{"40,2::tag", "43\n", "", 0, "[67]\n"},
		{"tag 40 50", "41\n51\n", "", 0, "[65]\n[81]\n"},
		{"tag 20; say a 'b c'", "a\nb c\n", bad, 1, `["a","b c"]` + "\n"},
		{"find -n 2 ! wc -l", "2\n", "", 0, "1\n"},
		{"say x ! exit 3", "", "", 0, ""},
		{"say | tag", "", "jscore: say: has no addresses for the next command of a pipeline\n", 1, ""},
		{"find | say", "", "jscore: say: takes no addresses from a pipeline (usage: say)\n", 2, ""},
		{"fund", "", "jscore: unknown command \"fund\" (did you mean find?)\n", 2, ""},
		{"find -q", "", "jscore: find: unknown shorthand flag: 'q' in -q (usage: find [-n COUNT])\n", 2, ""},
		{"tag 40,0", "", "jscore: tag: \"0\" is no count (usage: tag)\n", 2, ""},
		{"say 'x", "", "jscore: no end of the quote 'x\n", 2, ""},
	} {
		for _, json := range []bool{false, true} {
			s, out, said := fakeSession(json)
			s.line(t.Context(), tt.line)
			want := tt.want
			if json {
				want = tt.json
			}
			if diff := cmp.Diff(want, strings.TrimLeft(out.String(), " ")); diff != "" {
				t.Errorf("%q, JSON %v: output (-want +got):\n%s", tt.line, json, diff)
			}
			if said.String() != tt.said || s.status != tt.status {
				t.Errorf("%q: said %q with status %d, want %q with %d", tt.line, said, s.status, tt.said, tt.status)
			}
		}
	}
}

func TestCommandIsInterrupted(t *testing.T) {
	s, out, said := fakeSession(false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.line(ctx, "never; say more")
	const want = "jscore: never: interrupted before it had a result\n"
	if out.Len() > 0 || said.String() != want || s.status != 0 {
		t.Errorf("printed %q, said %q with status %d, want nothing, %q with 0", out, said, s.status, want)
	}
}

func TestInterruptSaysWhatIsNotKnown(t *testing.T) {
	s, out, said := fakeSession(false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.begin("adding up")
	s.line(ctx, "never")
	s.line(ctx, "never")
	const want = "jscore: never: interrupted while adding up: nothing of that is known\n" +
		"jscore: never: interrupted before it had a result\n"
	if out.Len() > 0 || said.String() != want || s.status != 0 {
		t.Errorf("printed %q, said %q with status %d, want nothing, %q with 0", out, said, s.status, want)
	}
}

func TestPanicIsAnErrorOfItsCommand(t *testing.T) {
	s, out, said := fakeSession(false)
	s.line(t.Context(), "break; find -n 1")
	const want = "jscore: break: read the process: internal error: broken "
	if !strings.HasPrefix(said.String(), want) || out.String() != "10\n" || s.status != 1 {
		t.Errorf("printed %q, said %q with status %d, want 10 and %q… with 1", out, said, s.status, want)
	}
}

func TestReaderThatEndsIsNoError(t *testing.T) {
	s, _, said := fakeSession(false)
	s.line(t.Context(), "find -n 1000000 ! head -n 1")
	if said.Len() > 0 || s.status != 0 {
		t.Errorf("said %q with status %d, want nothing", said, s.status)
	}
}

func TestNearestNameIsSuggested(t *testing.T) {
	for name, want := range map[string]string{
		"jsprnt": "jsprint", "findjsobject": "findjsobjects", "find": "findjsobjects", "v8tipe": "v8type",
		"xyzzyplugh": "", "-e": "", strings.Repeat("x", 1<<10): "",
	} {
		if got := commands().nearest(name); got != want {
			t.Errorf("nearest to %.20s = %q, want %q", name, got, want)
		}
	}
}

func TestWordsAreCompleted(t *testing.T) {
	s, _, _ := fakeSession(false)
	s.commands = commands()
	for typed, want := range map[string]string{
		"v8isol":                 "ates ",
		"::v8isol":               "ates ",
		"1f3c9::jsretai":         "ned ",
		"status | jsfindre":      "fs ",
		"help v8isol":            "ates ",
		"jsretained --num":       "ber ",
		"export /proc/self/cmdl": "ine ",
		"export /proc/self/tas":  "k/",
		"v8isolates x":           "",
		"findjsobjects -c S":     "", // no command has read the objects
	} {
		rest, length := (&completer{s}).Do([]rune(typed), len([]rune(typed)))
		got := ""
		if len(rest) == 1 {
			got = string(rest[0])
		}
		if got != want || len(rest) > 1 || length > len(typed) {
			t.Errorf("after %q comes %q of %d, want %q", typed, got, len(rest), want)
		}
	}
}

var _ jscore.Addressed = words(nil)
