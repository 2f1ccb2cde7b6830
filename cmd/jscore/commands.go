package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"ustack/cmd/internal/cli"
)

// commands returns all commands, in the order in which help lists them.
func commands() registry {
	var all registry
	for _, group := range groups() {
		all = append(all, group.commands...)
	}
	return all
}

// A group is a set of related commands.
type group struct {
	title    string
	commands registry
}

func groups() []group {
	return []group{
		{"What it was doing", stackCommands()},
		{"Values", valueCommands()},
		{"The heap", heapCommands()},
		{"Memory and machine code", slices.Concat(nativeCommands(), expressionCommands())},
		{"Resident memory", memoryCommands()},
		{"Node.js", nodeCommands()},
		{"V8 itself", v8Commands()},
		{"Jscore", ownCommands()},
	}
}

func ownCommands() registry {
	return registry{
		{
			name: "help", aliases: []string{"?"}, usage: "[COMMAND]", args: 1,
			short: "list the commands, or explain one",
			bind:  plain(once(func(_ context.Context, v *invocation) (*helpText, error) { return v.help() })),
		},
		{
			name: "commands", aliases: []string{"dcmds"},
			short: "list the names of all commands",
			bind:  plain(once(func(_ context.Context, v *invocation) (nameList, error) { return v.commands.names(), nil })),
		},
		mdbCommand(),
		{
			name: "quit", aliases: []string{"exit", "$q"}, short: "end the session",
			bind: plain(func(_ context.Context, v *invocation) error { v.over = true; return nil }),
		},
	}
}

// helpText is what help prints.
type helpText struct {
	Commands []commandHelp `json:"commands"`

	groups []group
	whole  bool // about one command
}

type commandHelp struct {
	Name    string   `json:"name"`
	Aliases []string `json:"aliases,omitempty"`
	Usage   string   `json:"usage"`
	Short   string   `json:"short"`
	Long    string   `json:"long,omitempty"`
	Example string   `json:"example,omitempty"`
	Flags   string   `json:"flags,omitempty"`
}

// help returns the help on the named command, or the list of all commands.
func (v *invocation) help() (*helpText, error) {
	if len(v.args) > 0 {
		c, err := v.commands.lookup(strings.TrimPrefix(v.args[0], "::"))
		if err != nil {
			return nil, err
		}
		return &helpText{Commands: []commandHelp{c.help()}, whole: true}, nil
	}
	h := &helpText{groups: groups()}
	for _, c := range v.commands {
		h.Commands = append(h.Commands, c.help())
	}
	return h, nil
}

func (c *command) help() commandHelp {
	return commandHelp{
		Name: c.name, Aliases: c.aliases, Usage: c.use(), Short: c.short, Long: c.long, Example: c.example,
		Flags: c.flags(new(run)).FlagUsagesWrapped(80),
	}
}

// WriteText writes a line for each command, or everything about the one.
func (h *helpText) WriteText(w io.Writer) error {
	if h.whole {
		return h.Commands[0].write(w)
	}
	var b strings.Builder
	for i, g := range h.groups {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:\n", g.title)
		for _, c := range g.commands {
			fmt.Fprintf(&b, "  %-14s %s\n", c.name, c.short)
		}
	}
	b.WriteString(`
"help COMMAND" explains one. Addresses are hexadecimal: "jsprint -d 3 1f3c9" and
"1f3c9::jsprint -d 3" are the same. "a | b" gives b the addresses that a finds,
"a ! grep x" its text to the shell, "a; b" runs one after the other.
`)
	_, err := io.WriteString(w, b.String())
	return err
}

func (c commandHelp) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n    %s\n", c.Usage, c.Short)
	if len(c.Aliases) > 0 {
		fmt.Fprintf(&b, "    Also: %s\n", strings.Join(c.Aliases, ", "))
	}
	for _, part := range []string{c.Long, strings.TrimRight(c.Flags, "\n")} {
		if part != "" {
			fmt.Fprintf(&b, "\n%s\n", part)
		}
	}
	if c.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// A nameList is a list of names, printed one per line.
type nameList []string

func (l nameList) WriteText(w io.Writer) error {
	_, err := io.WriteString(w, strings.Join(l, "\n")+"\n")
	return err
}

// argument returns the argument at index i, or "" if it is missing.
func (v *invocation) argument(i int) string {
	if i < len(v.args) {
		return v.args[i]
	}
	return ""
}

// needs returns a usage error if the command lacks arguments.
func (v *invocation) needs(names ...string) error {
	if len(v.args) < len(names) {
		return cli.Usagef("needs %s (help says more)", strings.Join(slices.Clone(names)[len(v.args):], " and "))
	}
	return nil
}
