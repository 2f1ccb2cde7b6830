package main

import (
	"context"

	"ustack/tools/jscore"
)

// memoryCommands are about the process's memory, JavaScript's or not.
func memoryCommands() registry {
	return registry{
		{
			name:  "memory",
			short: "show what the resident memory is used for, and what stands out",
			long: `The parts add up to the resident memory: V8's heaps, what their objects have
outside of them, malloc's blocks and free memory, stacks, libraries and files. The
first line says what stands out, the second which command to type next.`,
			bind: plain(once(func(ctx context.Context, v *invocation) (*jscore.Memory, error) { return v.memory(ctx) })),
		},
	}
}

// memory adds up the memory, V8's objects included if V8 is understood.
func (v *invocation) memory(ctx context.Context) (*jscore.Memory, error) {
	g, err := v.graphOrNone(ctx)
	if err != nil {
		return nil, err
	}
	return v.dump.Memory(ctx, g)
}

// graphOrNone returns all objects; nil if V8's heap cannot be read.
func (v *invocation) graphOrNone(ctx context.Context) (*jscore.Graph, error) {
	if v.dump.Heap() == nil {
		return nil, nil
	}
	return v.graph(ctx)
}
