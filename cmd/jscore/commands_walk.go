package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"ustack/cmd/internal/cli"
	"ustack/symbolize/v8"
	"ustack/tools/jscore"
)

// A walker is a way to go through things one by one.
type walker struct {
	name, short string
	needs       bool // an address
}

var walkers = []walker{
	{"jselement", "the elements of the array at ADDR", true},
	{"jsframe", "the frame pointers of JavaScript functions, leaf first", false},
	{"jsprop", "the values of the properties of the object at ADDR", true},
}

// walkerNamed returns the walker with that name.
func walkerNamed(name string) (walker, error) {
	var names []string
	for _, w := range walkers {
		if names = append(names, w.name); w.name == name {
			return w, nil
		}
	}
	return walker{}, cli.Usagef("no walker %q (there are %s)", name, strings.Join(names, ", "))
}

func walk() *command {
	return &command{
		name: "walk", usage: "[-t TID] WALKER [ADDR...]", input: optional, args: 1, isWord: notAddress,
		short:   "list what a walker goes through: walkers lists these",
		example: "  walk jsframe | jsframe -v\n  1f3c9::walk jsprop | jsprint\n  walk jselement 1f3c9",
		bind: func(flags *pflag.FlagSet) run {
			tid := flags.IntP("thread", "t", 0, "of the thread `TID`; of the first one if 0")
			return func(ctx context.Context, v *invocation) error {
				if err := v.needs("a walker"); err != nil {
					return err
				}
				w, err := walkerNamed(v.args[0])
				switch {
				case err != nil:
					return err
				case w.needs && len(v.inputs) == 0 && !v.piped:
					return cli.Usagef("%s needs an address", w.name)
				case !w.needs && (len(v.inputs) > 0 || v.piped):
					return cli.Usagef("%s takes no address (-t gives the thread)", w.name)
				case w.needs:
					return eachObject(func(_ *invocation, h *v8.Heap, value v8.Value) (*jscore.Values, error) {
						if w.name == "jsprop" {
							return jscore.WalkProperties(h, value)
						}
						return jscore.JSArray(h, value, false)
					})(ctx, v)
				}
				thread, err := v.thread(*tid)
				if err != nil {
					return err
				}
				return v.emit(v.dump.WalkJSFrame(thread))
			}
		},
	}
}

func walkersCommand() *command {
	return &command{
		name: "walkers", short: "list the walkers of walk",
		bind: plain(once(func(context.Context, *invocation) (walkerList, error) {
			list := walkerList{}
			for _, w := range walkers {
				list = append(list, walkerHelp{w.name, w.short})
			}
			return list, nil
		})),
	}
}

// walkerList is the walkers with what they go through.
type walkerList []walkerHelp

type walkerHelp struct {
	Name  string `json:"name"`
	Short string `json:"short"`
}

// WriteText writes a line for each walker.
func (l walkerList) WriteText(w io.Writer) error {
	for _, walker := range l {
		if _, err := fmt.Fprintf(w, "%-12s %s\n", walker.Name, walker.Short); err != nil {
			return err
		}
	}
	return nil
}
