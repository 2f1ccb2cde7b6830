package main

import (
	"context"
	"slices"
	"strconv"

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
			name: "v8print", usage: "ADDR...", input: required,
			short: "print the fields of V8's objects",
			long: `The fields of each class that the object's is derived from are inside its own.
What is known of a class depends on V8's version: v8field lists it.`,
			bind: plain(eachObject(func(v *invocation, _ *v8.Heap, value v8.Value) (*jscore.V8Printed, error) {
				return v.dump.V8Print(value)
			})),
		},
		{
			name: "v8str", usage: "[-v] ADDR...", input: required,
			short: "print strings, of any form",
			bind: func(flags *pflag.FlagSet) run {
				parts := flags.BoolP("verbose", "v", false, "show what the string is made of")
				return eachObject(func(_ *invocation, h *v8.Heap, value v8.Value) (*jscore.V8String, error) {
					return jscore.V8Str(h, value, *parts)
				})
			},
		},
		{
			name: "v8array", usage: "ADDR...", input: required,
			short: "list the elements of V8's own arrays",
			bind: plain(eachObject(func(_ *invocation, h *v8.Heap, value v8.Value) (*jscore.Values, error) {
				return jscore.V8Array(h, value)
			})),
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
					var err error
					if index, err = strconv.Atoi(text); err != nil || index < 0 {
						return nil, cli.Usagef("%q is no index", text)
					}
				}
				return jscore.V8Internal(h, value, index)
			})),
		},
		{
			name: "v8whatis", usage: "ADDR...", input: required,
			short: "find the objects of V8's that addresses are in",
			bind: plain(each(func(_ context.Context, v *invocation, address v8.Value) (*jscore.Whatis, error) {
				return v.dump.V8Whatis(address)
			})),
		},
	}
}

// v8CodeCommands inspect what V8 stores about functions.
func v8CodeCommands() registry {
	return registry{
		{
			name: "v8function", usage: "ADDR...", input: required,
			short: "show what V8 keeps of functions",
			bind:  table((*jscore.Dump).V8Function),
		},
		{
			name: "v8code", usage: "ADDR...", input: required,
			short: "show where the machine code of functions is",
			bind:  table((*jscore.Dump).V8Code),
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
			name: "v8field", usage: "CLASS [FIELD]", args: 2,
			short: "list where objects of a class keep their fields",
			bind: plain(once(func(_ context.Context, v *invocation) (*jscore.V8Classes, error) {
				if err := v.needs("a class"); err != nil {
					return nil, err
				}
				return v.dump.V8Classes(v.args[0], v.argument(1))
			})),
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
