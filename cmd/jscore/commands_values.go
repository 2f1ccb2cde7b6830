package main

import (
	"context"

	"github.com/spf13/pflag"

	"ustack/symbolize/v8"
	"ustack/tools/jscore"
)

// valueCommands print JavaScript values.
func valueCommands() registry {
	return registry{
		jsprint(),
		{
			name: "jsconstructor", usage: "[-v] ADDR...", input: required,
			short: "print what made objects",
			bind: func(flags *pflag.FlagSet) run {
				verbose := flags.BoolP("verbose", "v", false, "print the function's address too")
				return eachObject(func(_ *invocation, h *v8.Heap, value v8.Value) (*jscore.Constructor, error) {
					return jscore.JSConstructor(h, value, *verbose)
				})
			},
		},
		{
			name: "jsfunction", usage: "ADDR...", input: required,
			short: "say what functions are, and where they are defined",
			bind:  table((*jscore.Dump).JSFunction),
		},
		{
			name: "jssource", usage: "[-n LINES] ADDR...", input: required,
			short: "print the source of functions",
			bind: func(flags *pflag.FlagSet) run {
				around := flags.IntP("lines", "n", 5, "print so many `LINES` before and after it")
				return eachObject(func(v *invocation, _ *v8.Heap, value v8.Value) (*jscore.FunctionSource, error) {
					return v.dump.JSSource(value, *around)
				})
			},
		},
		{
			name: "jsclosure", usage: "ADDR...", input: required,
			short: "print the variables that functions have captured",
			bind: plain(eachObject(func(_ *invocation, h *v8.Heap, value v8.Value) (*jscore.Closure, error) {
				return jscore.JSClosure(h, value)
			})),
		},
		{
			name: "jsarray", usage: "[-i] ADDR...", input: required,
			short: "list the elements of arrays",
			bind: func(flags *pflag.FlagSet) run {
				indices := flags.BoolP("indices", "i", false, "print the indices, and what the elements are")
				return eachObject(func(_ *invocation, h *v8.Heap, value v8.Value) (*jscore.Values, error) {
					return jscore.JSArray(h, value, *indices)
				})
			},
		},
		{
			name: "nodebuffer", usage: "[-b] ADDR...", input: required,
			short: "find the bytes of Buffers, typed arrays and ArrayBuffers",
			bind: func(flags *pflag.FlagSet) run {
				bytes := flags.BoolP("bytes", "b", false, "print them")
				return eachObject(func(v *invocation, _ *v8.Heap, value v8.Value) (*jscore.NodeBuffer, error) {
					return v.dump.NodeBuffer(value, *bytes)
				})
			},
		},
		{
			name: "dump", usage: "ADDR[,LEN]", input: required, counted: true,
			short: "print memory as hexadecimal numbers and text",
			long: `LEN is how many bytes, 64 if it is left out: decimal, or hexadecimal after 0x.
The mark above the columns is where the first byte is.`,
			example: "  dump 55d0c8a0,32\n  55d0c8a0,0t32::dump\n  1f3c9::nodebuffer | dump",
			bind: plain(each(func(_ context.Context, v *invocation, address v8.Value) (*jscore.Bytes, error) {
				return v.dump.Bytes(uint64(address), v.count)
			})),
		},
		{
			name: "whatis", usage: "ADDR...", input: required,
			short: "say what is at addresses: mapping, symbol, object",
			bind: plain(each(func(_ context.Context, v *invocation, address v8.Value) (*jscore.Whatis, error) {
				return v.dump.Whatis(address)
			})),
		},
	}
}

// jsprint binds jsprint.
func jsprint() *command {
	return &command{
		name: "jsprint", usage: "[-abv] [-d DEPTH] [-N COUNT] [--text CHARACTERS] ADDR|VARIABLE [MEMBER...]", input: required, args: -1, named: true,
		short: "print JavaScript values",
		long: `A MEMBER is a path such as url, list[3].name or map["a key"].host: then that
is printed instead of the object. What is deeper than DEPTH is shown as [...].
A VARIABLE is one of the frame that jsframe selected, else of the innermost
one; it may be a path too, and begins with a dot if it reads as an address where
something is: .be.size.`,
		example: "  jsprint -d 3 1f3c9\n  findjsobjects -c Session | jsprint id request.url",
		bind: func(flags *pflag.FlagSet) run {
			var o jscore.PrintOptions
			flags.BoolVarP(&o.Addresses, "addresses", "a", false, "print the address of each value")
			flags.BoolVarP(&o.Base, "base", "b", false, "print the address of the object itself before each line")
			flags.BoolVarP(&o.Storage, "verbose", "v", false, "print where V8 keeps the properties: in the object, in its \"properties\" array ...")
			flags.IntVarP(&o.Depth, "depth", "d", jscore.DefaultDepth, "print so many levels of members")
			flags.IntVar(&o.Text, "text", 0, "print so many `CHARACTERS` of each string; -1: all (default 1024, of ADDR itself 1048576)")
			flags.IntVarP(&o.Members, "members", "N", jscore.DefaultMembers, "print so many members of one object; 0: all")
			addressed := eachObject(func(v *invocation, h *v8.Heap, value v8.Value) (*jscore.Printed, error) {
				if _, isSmi := value.Smi(); !isSmi {
					if _, err := h.Object(value); err != nil {
						return nil, err
					}
				}
				o.Paths = v.args
				return jscore.Print(h, value, o)
			})
			variable := once(func(_ context.Context, v *invocation) (*jscore.Printed, error) {
				if _, err := v.heap(); err != nil {
					return nil, err
				}
				o.Paths = v.args
				return v.dump.PrintVariables(v.frame, o)
			})
			return func(ctx context.Context, v *invocation) error {
				if len(v.inputs) == 0 && !v.piped {
					return variable(ctx, v)
				}
				return addressed(ctx, v)
			}
		},
	}
}
