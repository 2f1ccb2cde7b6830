package main

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"ustack/cmd/internal/cli"
	"ustack/tools/jscore"
)

// memoryCommands are about the process's memory, JavaScript's or not.
func memoryCommands() registry {
	return registry{
		{
			name: "memory", usage: "[diff CORE]", args: 2,
			short:   "show what the resident memory is used for, and what stands out",
			example: "  memory\n  memory diff early.core",
			long: `The parts add up to the resident memory: V8's heaps, what their objects have
outside of them, malloc's blocks and free memory, stacks, libraries and files.
The first line says what stands out, the second which command to type next.
"memory diff CORE" shows what grew since an earlier core.`,
			bind: plain(memory),
		},
		mallocCommand(),
		{
			name:  "findleaks",
			short: "find blocks of malloc that nothing refers to, by what they begin with",
			long: `All of the memory is searched for addresses of blocks: data, stacks, registers,
V8's heaps, and blocks that are referred to. The content is the class of a C++
object, or text; a pipeline continues with the blocks, up to 1024 of each group.`,
			example: "  findleaks\n  findleaks | dump",
			bind: plain(once(func(ctx context.Context, v *invocation) (*jscore.LostBlocks, error) {
				return v.dump.FindLeaks(ctx)
			})),
		},
	}
}

func mallocCommand() *command {
	return &command{
		name: "malloc", usage: "[-n COUNT] [-s SIZE]",
		short: "count malloc's blocks by size, in use and free, and its arenas",
		long: `SYSTEM is what an arena has from the kernel, FREE what of its free blocks is in
memory, RELEASED what is not. Sizes include malloc's own word. With -s, list the
blocks in use of that size.`,
		example: "  malloc\n  malloc -s 1008 -n 3 | dump",
		bind: func(flags *pflag.FlagSet) run {
			var o jscore.MallocOptions
			flags.IntVarP(&o.Limit, "number", "n", 0, "show at most `COUNT` sizes (default 20), or blocks (default all)")
			flags.Uint64VarP(&o.Size, "size", "s", 0, "list the blocks of this `SIZE`")
			return func(ctx context.Context, v *invocation) error {
				if o.Limit < 0 {
					return cli.Usagef("-n %d is below 0", o.Limit)
				}
				if o.Size != 0 {
					return emitted(ctx, v, o, v.dump.Blocks)
				}
				return emitted(ctx, v, o, v.dump.Malloc)
			}
		},
	}
}

// emitted emits the result of a function.
func emitted[O any, R jscore.Result](ctx context.Context, v *invocation, o O, do func(context.Context, O) (R, error)) error {
	result, err := do(ctx, o)
	if err != nil {
		return err
	}
	return v.emit(result)
}

// memory adds up the memory, or says what grew since an earlier core.
func memory(ctx context.Context, v *invocation) error {
	if len(v.args) > 0 && (v.args[0] != "diff" || len(v.args) == 1) {
		return cli.Usagef("takes nothing, or diff and an earlier core")
	}
	g, err := v.graphOrNone(ctx)
	if err != nil {
		return err
	}
	now, err := v.dump.Memory(ctx, g)
	if err != nil {
		return err
	}
	if len(v.args) == 0 {
		return v.emit(now)
	}
	before, err := v.memoryBefore(ctx, v.args[1])
	if err != nil {
		return err
	}
	return v.emit(jscore.DiffMemory(ctx, before, now))
}

// memoryBefore adds up the memory of an earlier core.
func (v *invocation) memoryBefore(ctx context.Context, path string) (_ *jscore.Memory, err error) {
	dump, err := jscore.Open(ctx, path, v.options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dump.Close()) }()
	for _, missing := range dump.Missing() {
		v.messages.Notef("%s", missing)
	}
	var g *jscore.Graph
	if dump.Heap() != nil {
		if g, err = dump.Graph(ctx); err != nil {
			return nil, err
		}
	}
	return dump.Memory(ctx, g)
}

// graphOrNone returns all objects; nil if V8's heap cannot be read.
func (v *invocation) graphOrNone(ctx context.Context) (*jscore.Graph, error) {
	if v.dump.Heap() == nil {
		return nil, nil
	}
	return v.graph(ctx)
}
