package main

import (
	"context"
	"strings"

	"github.com/spf13/pflag"

	"ustack/cmd/internal/cli"
	"ustack/symbolize/v8"
	"ustack/tools/jscore"
)

// nativeCommands show memory, machine code and symbols, as mdb's own do.
func nativeCommands() registry {
	return registry{
		show(),
		showNumber(),
		{
			name: "formats", short: "list the formats of / and =",
			bind: plain(once(func(context.Context, *invocation) (jscore.FormatList, error) { return jscore.AllFormats(), nil })),
		},
		dis(),
		nm(),
		{
			name: "mappings", aliases: []string{"$m"}, usage: "[NAME | ADDR...]", input: optional, args: 1, isWord: notAddress,
			short: "list mappings: all, those with NAME in their names, or of ADDR",
			bind: plain(func(ctx context.Context, v *invocation) error {
				if len(v.inputs) == 0 && !v.piped {
					return v.emit(v.dump.Mappings(v.argument(0)))
				}
				return each(func(_ context.Context, v *invocation, address v8.Value) (jscore.MappingList, error) {
					return v.dump.MappingOf(uint64(address))
				})(ctx, v)
			}),
		},
		{
			name: "regs", aliases: []string{"$r"}, usage: "[-t TID]",
			short: "print a thread's registers",
			bind: func(flags *pflag.FlagSet) run {
				tid := flags.IntP("thread", "t", 0, "of the thread `TID`; of the first one if 0")
				return once(func(_ context.Context, v *invocation) (*jscore.RegisterList, error) {
					thread, err := v.thread(*tid)
					if err != nil {
						return nil, err
					}
					return v.dump.Registers(thread.TID)
				})
			},
		},
		{
			name: "memgrep", usage: "TEXT", args: 1,
			short: "find a text in memory, V8's or not",
			long: `The text is found as UTF-8, Latin-1 and UTF-16. A pipeline continues with the
object of V8's that contains it, or else with its address.`,
			example: "  memgrep /orders/999\n  memgrep \"hello world\" | whatis",
			bind: plain(once(func(ctx context.Context, v *invocation) (*jscore.FoundTexts, error) {
				if err := v.needs("a text"); err != nil {
					return nil, err
				}
				v.messages.Progressf("searching all memory")
				defer v.messages.Clear()
				return v.dump.SearchText(ctx, v.args[0])
			})),
		},
	}
}

// notAddress reports whether a word is a name: not an address, with or without a count.
func notAddress(word string) bool { return !isAddress(word) }

// isFormat reports whether a word after an address consists of formats.
func isFormat(word string) bool {
	_, err := jscore.ParseFormats(word)
	return err == nil || !isAddress(word)
}

func show() *command {
	return &command{
		name: "/", usage: "FORMAT ADDR[,COUNT]", input: required, args: -1, counted: true, literal: true, dotted: true, isWord: isFormat,
		short: `show memory in mdb's formats: "ADDR,COUNT/FORMAT"`,
		long: `FORMAT is one or more letters, each after a decimal number if it is repeated;
"formats" lists them. All of it is repeated COUNT times. With l, L or M,
"ADDR/M VALUE MASK" finds the next number that has this value in the bits of
MASK, or is VALUE if that is left out. Nothing is written: w, W and Z only show
numbers after another letter or "=".`,
		example: "  55d0c8a0/X\n  55d0c8a0,4/nap\n  55d0c8a0/s\n  mappings heap | /2J\n  55d0c8a0/M 1f3c9",
		bind: plain(func(ctx context.Context, v *invocation) error {
			if m, ok, err := v.match(); ok || err != nil {
				return v.showMatches(ctx, m, err)
			}
			formats, err := v.formats()
			if err != nil {
				return err
			}
			return each(func(_ context.Context, v *invocation, address v8.Value) (*jscore.Shown, error) {
				shown, err := v.dump.Show(formats, uint64(address), v.count, v.step)
				if err == nil {
					v.setDot(shown.Last())
				}
				return shown, err
			})(ctx, v)
		}),
	}
}

// match returns what to find if the first format is one that finds numbers.
func (v *invocation) match() (m jscore.Match, ok bool, err error) {
	if len(v.args) == 0 || len(v.args[0]) != 1 {
		return m, false, nil
	}
	letter := v.args[0][0]
	if jscore.WritesMemory(letter) && (letter != 'v' || len(v.args) > 1) {
		return m, false, cli.Usagef("%c writes to memory in mdb: a core is never written (formats lists what shows memory)", letter)
	}
	size, ok := jscore.MatchSize(letter)
	if !ok {
		return m, false, nil
	}
	m = jscore.Match{Size: size, Mask: ^uint64(0)}
	if n := len(v.args) - 1; n < 1 || n > 2 {
		return m, true, cli.Usagef("%c needs a value to find, and perhaps a mask", letter)
	}
	for i, to := range []*uint64{&m.Value, &m.Mask}[:len(v.args)-1] {
		value, err := asAddress(v.args[i+1], asArgument, v.session)
		if err != nil {
			return m, true, err
		}
		*to = uint64(value)
	}
	return m, true, nil
}

// showMatches emits the first match at each address or above it.
func (v *invocation) showMatches(ctx context.Context, m jscore.Match, err error) error {
	if err != nil {
		return err
	}
	return each(func(ctx context.Context, v *invocation, address v8.Value) (*jscore.Matched, error) {
		found, err := v.dump.FindNumber(ctx, m, uint64(address))
		if err == nil {
			v.setDot(uint64(found.Address), uint64(m.Size))
		}
		return found, err
	})(ctx, v)
}

func showNumber() *command {
	return &command{
		name: "=", usage: "FORMAT ADDR", input: required, args: -1, literal: true, dotted: true, isWord: isFormat,
		short:   `show a number in mdb's formats: "NUMBER=FORMAT"`,
		example: "  1f3c9=E\n  0t4096=X\n  7f31c0a4=p\n  1f3c9+0t10*8=J",
		bind: plain(func(ctx context.Context, v *invocation) error {
			formats, err := v.formats()
			if err != nil {
				return err
			}
			return each(func(_ context.Context, v *invocation, number v8.Value) (*jscore.Shown, error) {
				return v.dump.ShowNumber(formats, uint64(number))
			})(ctx, v)
		}),
	}
}

// formats returns the formats that the arguments are.
func (v *invocation) formats() (jscore.Formats, error) {
	formats, err := jscore.ParseFormats(strings.Join(v.args, ""))
	if err != nil {
		return nil, cli.Usagef("%v", err)
	}
	return formats, nil
}

func dis() *command {
	return &command{
		name: "dis", usage: "[-w] [-n COUNT] ADDR...", input: required,
		short: "disassemble machine code: of libraries, of Node.js, of V8",
		long: `At the start of a function, all of it is shown; elsewhere the instructions
around ADDR.`,
		example: "  dis 7f31c0a4\n  nm uv_run | dis",
		bind: func(flags *pflag.FlagSet) run {
			var o jscore.DisOptions
			flags.IntVarP(&o.Around, "number", "n", 10, "show `COUNT` instructions before and after that at ADDR")
			flags.BoolVarP(&o.Window, "window", "w", false, "show these at the start of a function, too")
			return func(ctx context.Context, v *invocation) error {
				if o.Around < 1 {
					return cli.Usagef("-n %d is not above 0", o.Around)
				}
				return each(func(_ context.Context, v *invocation, address v8.Value) (*jscore.Listing, error) {
					return v.dump.Dis(uint64(address), o)
				})(ctx, v)
			}
		},
	}
}

func nm() *command {
	return &command{
		name: "nm", usage: "[TEXT] | ADDR::nm", input: optional, args: 1, isWord: func(string) bool { return true },
		short:   "list symbols with TEXT in their names, or the one at ADDR",
		example: "  nm uv_run\n  7f31c0a4::nm",
		bind: plain(func(ctx context.Context, v *invocation) error {
			if len(v.inputs) == 0 && !v.piped {
				return v.emit(v.dump.Symbols(v.argument(0)))
			}
			return each(func(_ context.Context, v *invocation, address v8.Value) (*jscore.SymbolList, error) {
				return v.dump.SymbolAt(uint64(address))
			})(ctx, v)
		}),
	}
}
