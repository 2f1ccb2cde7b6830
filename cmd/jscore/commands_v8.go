package main

import (
	"context"

	"github.com/spf13/pflag"

	"ustack/symbolize/v8"
	"ustack/tools/postmortem"
)

// v8Commands look at V8's own objects.
func v8Commands() registry {
	return registry{
		{
			name: "v8type", usage: "ADDR...", input: required,
			short: "say which of V8's types objects have",
			bind: plain(eachObject(func(_ *invocation, h *v8.Heap, value v8.Value) (postmortem.Brief, error) {
				return postmortem.BriefOf(h, value), nil
			})),
		},
		{
			name: "v8print", usage: "ADDR...", input: required,
			short: "print the fields of V8's objects",
			long: `The fields of each class that the object's is derived from are inside its own.
What is known of a class depends on V8's version: v8field lists it.`,
			bind: plain(eachObject(func(v *invocation, _ *v8.Heap, value v8.Value) (*postmortem.V8Printed, error) {
				return v.dump.V8Print(value)
			})),
		},
		{
			name: "v8str", usage: "[-v] ADDR...", input: required,
			short: "print strings, of any form",
			bind: func(flags *pflag.FlagSet) run {
				parts := flags.BoolP("verbose", "v", false, "show what the string is made of")
				return eachObject(func(_ *invocation, h *v8.Heap, value v8.Value) (*postmortem.V8String, error) {
					return postmortem.V8Str(h, value, *parts)
				})
			},
		},
		{
			name: "v8classes", short: "list the C++ classes whose fields are known",
			bind: plain(once(func(_ context.Context, v *invocation) (*postmortem.V8Classes, error) {
				return v.dump.V8Classes("", "")
			})),
		},
		{
			name: "v8field", usage: "CLASS [FIELD]", args: 2,
			short: "list where objects of a class keep their fields",
			bind: plain(once(func(_ context.Context, v *invocation) (*postmortem.V8Classes, error) {
				if err := v.needs("a class"); err != nil {
					return nil, err
				}
				return v.dump.V8Classes(v.args[0], v.argument(1))
			})),
		},
		{
			name: "v8types", short: "list V8's instance types",
			bind: plain(once(func(_ context.Context, v *invocation) (postmortem.Numbered, error) {
				return v.dump.V8Types()
			})),
		},
		{
			name: "v8frametypes", short: "list the types of V8's frames",
			bind: plain(once(func(_ context.Context, v *invocation) (postmortem.Numbered, error) {
				return v.dump.V8FrameTypes()
			})),
		},
	}
}
