package main

import (
	"context"
	"math"
	"slices"

	"github.com/spf13/pflag"

	"ustack/cmd/internal/cli"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/value"
	"ustack/tools/jscore"
)

// v8Commands inspect V8's own objects.
func v8Commands() registry {
	return slices.Concat(v8ObjectCommands(), v8CodeCommands(), v8SchemaCommands())
}

// v8ObjectCommands print objects as V8 sees them.
func v8ObjectCommands() registry {
	return registry{
		{
			name: "v8type", usage: "ADDR...", input: required,
			short: "show V8's types of objects",
			bind: plain(eachObject(func(_ *invocation, h *v8.Heap, of v8.Value) (jscore.Brief, error) {
				return value.BriefOf(h, of), nil
			})),
		},
		{
			name: "v8print", usage: "[CLASS] ADDR...", input: required, args: 1, isWord: notAddress,
			short: "print the fields of V8's objects",
			long: `The fields of each class that the object's is derived from are inside its own.
What is known of a class depends on V8's version: v8field lists it. With CLASS,
objects are read as if they were of that class.`,
			example: "  v8print 1f3c9\n  v8print HeapObject 1f3c9\n  1f3c9::v8print JSObject",
			bind: plain(eachObject(func(v *invocation, _ *v8.Heap, value v8.Value) (*jscore.V8Printed, error) {
				if class := v.argument(0); class != "" {
					return v.dump.V8PrintAs(value, class)
				}
				return v.dump.V8Print(value)
			})),
		},
		{
			name: "v8str", usage: "[-rv] ADDR...", input: required,
			short: "print strings, of any form",
			bind: func(flags *pflag.FlagSet) run {
				parts := flags.BoolP("verbose", "v", false, "show what the string is made of")
				flags.BoolP("raw", "r", false, "print the text without quotes, which is done in any case")
				return eachObject(func(_ *invocation, h *v8.Heap, value v8.Value) (*jscore.V8String, error) {
					return jscore.V8Str(h, value, *parts)
				})
			},
		},
		{
			name: "v8array", usage: "[-i] ADDR...", input: required,
			short: "list the elements of V8's own arrays",
			bind: func(flags *pflag.FlagSet) run {
				flags.BoolP("immediate", "i", false, "read an array at once, which is done in any case")
				return eachObject(func(_ *invocation, h *v8.Heap, value v8.Value) (*jscore.Values, error) {
					return jscore.V8Array(h, value)
				})
			},
		},
		{
			name: "v8map", usage: "ADDR...", input: required,
			short: "show how objects are laid out: Maps, or those of objects",
			bind:  heapTable(jscore.V8Map),
		},
		{
			name: "v8internal", usage: "ADDR [INDEX]", input: required, args: 1,
			short: "show an embedder's fields in an object",
			long: `Node.js keeps the address of the C++ object behind a JavaScript one there: of a
TCP handle, say, in field 1.`,
			bind: plain(eachObject(func(v *invocation, h *v8.Heap, value v8.Value) (*jscore.Values, error) {
				index := -1
				if text := v.argument(0); text != "" {
					n, err := number(text, 10)
					if err != nil || n > math.MaxInt32 {
						return nil, cli.Usagef("%q is no index", text)
					}
					index = int(n)
				}
				return jscore.V8Internal(h, value, index)
			})),
		},
		{
			name: "v8whatis", usage: "[-v] [-d BYTES] ADDR...", input: required,
			short: "find the objects of V8's that addresses are in",
			bind: func(flags *pflag.FlagSet) run {
				verbose := flags.BoolP("verbose", "v", false, "print what they are, and what memory they are in")
				back := flags.IntP("distance", "d", 0, "only objects that begin at most `BYTES` before; 0: any distance")
				return each(func(_ context.Context, v *invocation, address v8.Value) (*jscore.V8Whatis, error) {
					if *back < 0 {
						return nil, cli.Usagef("-d %d is below 0", *back)
					}
					w, err := v.dump.V8Whatis(address, uint64(*back))
					if err == nil {
						w.Verbose = *verbose
					}
					return w, err
				})
			},
		},
	}
}

// v8CodeCommands inspect what V8 stores about functions.
func v8CodeCommands() registry {
	return registry{
		{
			name: "v8function", usage: "[-d] ADDR...", input: required,
			short: "show what V8 keeps of functions",
			bind:  withCode((*jscore.Dump).V8Function),
		},
		{
			name: "v8code", usage: "[-d] ADDR...", input: required,
			short: "show where the machine code of functions is",
			long: `With -d, the code is disassembled, after the line of source that V8 made each
part of it from.`,
			example: "  1f3c9::v8code -d\n  jsstack -f handle | v8code -d",
			bind:    withCode((*jscore.Dump).V8Code),
		},
		{
			name: "v8context", usage: "ADDR...", input: required,
			short: "print the variables in Contexts",
			bind:  heapTable(jscore.V8Context),
		},
		{
			name: "v8scopeinfo", usage: "ADDR...", input: required,
			short: "print what ScopeInfos say",
			bind:  heapTable(jscore.V8Scope),
		},
	}
}

// v8SchemaCommands describe V8 as a whole.
func v8SchemaCommands() registry {
	return registry{
		{
			name: "v8classes", short: "list the C++ classes whose fields are known",
			bind: plain(once(func(_ context.Context, v *invocation) (*jscore.V8Classes, error) {
				return v.dump.V8Classes("", "")
			})),
		},
		{
			name: "v8field", usage: "CLASS [FIELD [OFFSET]]", args: 3,
			short: "list where objects of a class keep their fields, or add a field",
			long: `With OFFSET, v8print shows what is there in objects of the class, for the rest
of the session.`,
			example: "  v8field Map\n  v8field JSObject mystery 0x18; v8print 1f3c9",
			bind:    plain(v8field),
		},
		{
			name: "v8types", short: "list V8's instance types",
			bind: plain(once(func(_ context.Context, v *invocation) (jscore.Numbered, error) {
				return v.dump.V8Types()
			})),
		},
		{
			name: "v8frametypes", short: "list the types of V8's frames",
			bind: plain(once(func(_ context.Context, v *invocation) (jscore.Numbered, error) {
				return v.dump.V8FrameTypes()
			})),
		},
		{
			name: "v8spaces", short: "show how much memory V8 has for which objects",
			bind: plain(once(func(_ context.Context, v *invocation) (jscore.Spaces, error) {
				return v.dump.V8Spaces()
			})),
		},
		{
			name: "v8isolates", short: "list the instances of V8: the main one and workers'",
			bind: plain(once(func(_ context.Context, v *invocation) (jscore.V8Isolates, error) {
				return v.dump.V8Isolates(), nil
			})),
		},
	}
}

// table makes a command that shows a table for each object.
func table(show func(*jscore.Dump, v8.Value) (*jscore.Table, error)) func(*pflag.FlagSet) run {
	return plain(eachObject(func(v *invocation, _ *v8.Heap, value v8.Value) (*jscore.Table, error) {
		return show(v.dump, value)
	}))
}

// heapTable is table for functions that need only the heap.
func heapTable(show func(*v8.Heap, v8.Value) (*jscore.Table, error)) func(*pflag.FlagSet) run {
	return plain(eachObject(func(_ *invocation, h *v8.Heap, value v8.Value) (*jscore.Table, error) {
		return show(h, value)
	}))
}

// v8field lists fields of a class, or adds one.
func v8field(_ context.Context, v *invocation) error {
	if err := v.needs("a class"); err != nil {
		return err
	}
	if len(v.args) < 3 {
		fields, err := v.dump.V8Classes(v.args[0], v.argument(1))
		if err != nil {
			return err
		}
		return v.emit(fields)
	}
	offset, err := number(v.args[2], 10)
	if err != nil {
		return cli.Usagef("%q is no offset", v.args[2])
	}
	set, err := v.dump.SetV8Field(v.args[0], v.args[1], offset)
	if err != nil {
		return err
	}
	return v.emit(set)
}

// withCode is table for functions that also disassemble.
func withCode(show func(*jscore.Dump, v8.Value) (*jscore.Table, error)) func(*pflag.FlagSet) run {
	return func(flags *pflag.FlagSet) run {
		disassemble := flags.BoolP("disassemble", "d", false, "disassemble the machine code too")
		return eachObject(func(v *invocation, _ *v8.Heap, value v8.Value) (*jscore.Table, error) {
			t, err := show(v.dump, value)
			if err == nil && *disassemble {
				err = v.dump.Disassemble(t, value)
			}
			return t, err
		})
	}
}
