package main

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"ustack/symbolize/v8"
	"ustack/tools/jscore"
)

func jsframe() *command {
	return &command{
		name: "jsframe", usage: "[-aiv] [-n LINES] [-f NAME] [-p PROPERTY] FP|N...", input: required,
		short: "print the frames at frame pointers, and select the last one",
		long: `N below 4096 is the number of a function in the list of walk jsframe, from 0;
inlined functions have numbers of their own. Then jsprint knows the function's
variables by name.`,
		example: "  walk jsframe | jsframe -v\n  walk jsframe | jsframe -p this | jsprint\n  jsframe 2; jsprint request.url",
		bind: func(flags *pflag.FlagSet) run {
			var o jscore.StackOptions
			flags.BoolVarP(&o.All, "all", "a", false, "print V8's own frames too, and frame pointers and addresses")
			verboseFlags(flags, &o)
			property := filterFlags(flags, &o)
			flags.BoolP("immediate", "i", false, "print the frame at FP, which is done in any case")
			return withProperty(property, &o, each(func(_ context.Context, v *invocation, address v8.Value) (jscore.Result, error) {
				id, err := v.dump.FrameID(uint64(address))
				if err != nil {
					return nil, err
				}
				o.Calls = *property != ""
				stack, err := v.dump.JSFrame(id, o)
				if err == nil {
					v.frame = id
				}
				if err != nil || *property == "" {
					return stack, err
				}
				properties, err := jscore.Properties(jscore.StackList{stack}, *property)
				if v.piped && errors.Is(err, jscore.ErrNoVariable) {
					return &jscore.FrameProperties{Property: *property, Frames: []jscore.FrameProperty{}}, nil // another may have it
				}
				return properties, err
			}))
		},
	}
}

// filterFlags are the flags of jsstack and jsframe that say what to print of which frames.
func filterFlags(flags *pflag.FlagSet, o *jscore.StackOptions) (property *string) {
	flags.StringVarP(&o.Function, "function", "f", "", "print only JavaScript functions with `NAME` in their names")
	return flags.StringP("property", "p", "", "print only this `PROPERTY` of them: file, posn, this, arg1 ..., or a variable by its name")
}

// withProperty makes a run that reads variables if the property is one.
func withProperty(property *string, o *jscore.StackOptions, r run) run {
	return func(ctx context.Context, v *invocation) error {
		if *property != "" && !jscore.IsProperty(*property) {
			if _, err := v.heap(); err != nil {
				return err
			}
			o.Verbose, o.Lines = true, 0
		}
		return r(ctx, v)
	}
}

// emitProperty writes a property of the frames, or the stacks if there is no property.
func (v *invocation) emitProperty(stacks jscore.StackList, property string) error {
	if property == "" {
		return v.emit(stacks)
	}
	properties, err := jscore.Properties(stacks, property)
	if err != nil {
		return err
	}
	return v.emit(properties)
}

// stackCommand is one of mdb's: $c or $C.
func stackCommand(name, short string) *command {
	c := &command{
		name: name, usage: "[-t TID]", short: short,
		bind: func(flags *pflag.FlagSet) run {
			tid := flags.IntP("thread", "t", 0, "of the thread `TID`; of the first one if 0")
			return once(func(_ context.Context, v *invocation) (*jscore.NativeStack, error) {
				thread, err := v.thread(*tid)
				if err != nil {
					return nil, err
				}
				return v.dump.NativeStack(thread, name == "$C"), nil
			})
		},
	}
	if name == "$c" {
		c.aliases = []string{"stack"}
	}
	return c
}
