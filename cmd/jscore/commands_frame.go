package main

import (
	"context"

	"github.com/spf13/pflag"

	"ustack/cmd/internal/cli"
	"ustack/symbolize/v8"
	"ustack/tools/jscore"
)

func jsframe() *command {
	return &command{
		name: "jsframe", usage: "[-aiv] [-n LINES] [-f NAME] [-p PROPERTY] FP|N...", input: required,
		short: "print the frames at frame pointers, and select the last one",
		long: `N below 4096 is the number of a frame as walk jsframe lists them, from 0. Then
jsprint knows the variables of the frame by name.`,
		example: "  walk jsframe | jsframe -v\n  walk jsframe | jsframe -p this | jsprint\n  jsframe 2; jsprint request.url",
		bind: func(flags *pflag.FlagSet) run {
			var o jscore.StackOptions
			flags.BoolVarP(&o.All, "all", "a", false, "print V8's own frames too, and frame pointers and addresses")
			verboseFlags(flags, &o)
			property := filterFlags(flags, &o)
			flags.BoolP("immediate", "i", false, "print the frame at FP, which is done in any case")
			return checked(property, each(func(_ context.Context, v *invocation, address v8.Value) (jscore.Result, error) {
				fp, err := v.dump.FramePointer(uint64(address))
				if err != nil {
					return nil, err
				}
				stack, err := v.dump.JSFrame(fp, o)
				if err == nil {
					v.frame = fp
				}
				if err != nil || *property == "" {
					return stack, err
				}
				return jscore.Properties(jscore.StackList{stack}, *property), nil
			}))
		},
	}
}

// filterFlags are the flags of jsstack and jsframe that say what to print of which frames.
func filterFlags(flags *pflag.FlagSet, o *jscore.StackOptions) (property *string) {
	flags.StringVarP(&o.Function, "function", "f", "", "print only JavaScript functions with `NAME` in their names")
	return flags.StringP("property", "p", "", "print only this `PROPERTY` of them: file, posn, this, arg1, arg2 ...")
}

// checked makes a run that first checks that a frame can have the property.
func checked(property *string, r run) run {
	return func(ctx context.Context, v *invocation) error {
		if *property != "" && !jscore.IsProperty(*property) {
			return cli.Usagef("no property %q (there are file, posn, this, arg1, arg2 and so on)", *property)
		}
		return r(ctx, v)
	}
}

// emitProperty writes a property of the frames, or the stacks if there is no property.
func (v *invocation) emitProperty(stacks jscore.StackList, property string) error {
	if property == "" {
		return v.emit(stacks)
	}
	return v.emit(jscore.Properties(stacks, property))
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
