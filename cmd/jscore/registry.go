package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"ustack/cmd/internal/cli"
	"ustack/symbolize/v8"
	"ustack/tools/jscore"
)

// An input says how a command uses addresses.
type input int

const (
	noInput  input = iota
	optional       // none, or those that it is given
	required
)

// A command is a command of the language.
type command struct {
	name    string
	aliases []string
	usage   string // what follows the name
	short   string // what it does, in one line
	long    string // what that line does not say; may be empty
	example string // lines; may be empty
	input   input
	args    int                    // maximum beside flags and addresses; no maximum if below 0
	counted bool                   // an address may have a count: "ADDR,LEN"
	named   bool                   // a first argument that is no address is a variable's name
	isWord  func(text string) bool // reports whether an argument is not an address; nil: the first is an address
	dotted  bool                   // without an address, the last one is used
	literal bool                   // arguments that begin with "-" are no flags
	bind    func(flags *pflag.FlagSet) run
}

// A run carries out a command.
type run func(ctx context.Context, v *invocation) error

// An invocation is a command with its arguments, and where its results go.
type invocation struct {
	*session
	inputs []v8.Value // as written: tagged or not
	count  uint64     // that came with the addresses; 0 if none did
	piped  bool       // the inputs come from a pipeline
	args   []string
	emit   func(jscore.Result) error
	fail   func(of v8.Value, err error) // reports what went wrong with one of several inputs
}

// errStopped means that nobody reads the results any longer.
var errStopped = errors.New("the reader has gone")

// plain makes a run without flags.
func plain(r run) func(*pflag.FlagSet) run { return func(*pflag.FlagSet) run { return r } }

// once makes a run of a function that has one result.
func once[R jscore.Result](do func(ctx context.Context, v *invocation) (R, error)) run {
	return func(ctx context.Context, v *invocation) error {
		result, err := do(ctx, v)
		if err != nil {
			return err
		}
		return v.emit(result)
	}
}

// each makes a run of a function that has a result for each address.
func each[R jscore.Result](do func(ctx context.Context, v *invocation, address v8.Value) (R, error)) run {
	return func(ctx context.Context, v *invocation) error {
		for _, address := range v.inputs {
			if err := ctx.Err(); err != nil {
				return err
			}
			result, err := do(ctx, v, address)
			if err != nil {
				v.fail(address, err)
				continue
			}
			if err := v.emit(result); err != nil {
				return err
			}
		}
		return nil
	}
}

// eachObject is each for V8 values; it also converts untagged addresses to
// values.
func eachObject[R jscore.Result](do func(v *invocation, h *v8.Heap, value v8.Value) (R, error)) run {
	return each(func(_ context.Context, v *invocation, address v8.Value) (R, error) {
		h, err := v.heap()
		if err != nil {
			var none R
			return none, err
		}
		return do(v, h, tagged(address))
	})
}

// tagged returns the value at an address; the address of an object may be
// untagged.
func tagged(address v8.Value) v8.Value {
	if _, isSmi := address.Smi(); !isSmi && address&7 == 0 {
		return v8.Ref(uint64(address))
	}
	return address
}

// A registry contains all commands.
type registry []*command

// lookup returns the command with that name or alias.
func (r registry) lookup(name string) (*command, error) {
	for _, c := range r {
		if c.name == name || slices.Contains(c.aliases, name) {
			return c, nil
		}
	}
	if near := r.nearest(name); near != "" {
		return nil, cli.Usagef("unknown command %q (did you mean %s?)", name, near)
	}
	return nil, cli.Usagef("unknown command %q (help lists all)", name)
}

// names returns all names, aliases included.
func (r registry) names() []string {
	var names []string
	for _, c := range r {
		names = append(append(names, c.name), c.aliases...)
	}
	slices.Sort(names)
	return names
}

// nearest returns the name most similar to the given one; empty if none is
// similar.
func (r registry) nearest(name string) string {
	if near := nearest(name, r.names()); len(near) > 0 {
		return near[0]
	}
	return ""
}

// A stage is a command of a pipeline with its parsed arguments.
type stage struct {
	*command
	run       run
	addresses []v8.Value
	count     uint64
	args      []string
	names     names
}

// prepare parses a call's flags and arguments, and evaluates its expressions; if n is nil, it
// only checks their form. A command with piped input gets its addresses later.
func (r registry) prepare(c call, piped bool, n names) (*stage, error) {
	cmd, err := r.lookup(c.name)
	if err != nil {
		return nil, err
	}
	s, err := cmd.prepare(c, piped, n)
	if errors.Is(err, pflag.ErrHelp) { // "findjsobjects --help"
		return r.prepare(call{name: "help", args: []string{cmd.name}}, false, n)
	}
	switch {
	case errors.As(err, new(unresolved)):
		return nil, fmt.Errorf("%s: %w", cmd.name, err)
	case err != nil:
		return nil, cli.Usagef("%s: %v (usage: %s)", cmd.name, err, cmd.use())
	}
	return s, nil
}

func (c *command) prepare(from call, piped bool, n names) (*stage, error) {
	s := &stage{command: c, names: n}
	flags := c.flags(&s.run)
	if s.args = from.args; !c.literal {
		if err := flags.Parse(from.args); err != nil {
			return nil, err
		}
		s.args = flags.Args()
	}
	given := piped
	if from.address != "" {
		if piped || c.input == noInput {
			return nil, errors.New("takes no address here")
		}
		if err := s.takeAddress(from.address, beforeVerb); err != nil {
			return nil, err
		}
		given = false
	}
	if piped && c.input == noInput {
		return nil, errors.New("takes no addresses from a pipeline")
	}
	ofVerb := from.address != "" && strings.Contains(verbs, c.name) // then the arguments are its own
	if !given && c.input != noInput && !ofVerb {
		if err := s.takeAddresses(); err != nil {
			return nil, err
		}
	}
	if c.args >= 0 && len(s.args) > c.args {
		return nil, fmt.Errorf("stray argument %q", s.args[c.args])
	}
	return s, nil
}

// takeAddresses takes the addresses from the arguments: all that are no words; or the first
// one unless an address was given, and all if the command has no other arguments.
func (s *stage) takeAddresses() error {
	var rest []string
	for i, text := range s.args {
		word := s.command.args != 0 && (i > 0 || len(s.addresses) > 0)
		if s.named && i == 0 && len(s.addresses) == 0 && (!isAddress(text) || s.isName(text)) {
			word = true
		}
		if s.isWord != nil {
			word = s.isWord(text)
		}
		if word {
			rest = append(rest, text)
			continue
		}
		if err := s.takeAddress(text, asArgument); err != nil {
			return err
		}
	}
	if s.args = rest; len(s.addresses) > 0 || s.input != required || s.named && len(rest) > 0 {
		return nil
	}
	if s.dotted && s.names != nil {
		if dot, ok := s.names.dot(); ok {
			s.addresses = append(s.addresses, v8.Value(dot))
			return nil
		}
	}
	return errors.New("needs an address")
}

// isName reports whether an argument that reads as an address, such as "d" or "face", is a name:
// nothing is there.
func (s *stage) isName(text string) bool {
	if s.names == nil || !variableName.MatchString(text) || text[0] >= '0' && text[0] <= '9' {
		return false
	}
	address, err := number(text, hexadecimal)
	if err != nil {
		return false
	}
	_, err = s.names.word(address)
	return err != nil
}

// takeAddress evaluates an address, which may have a count.
func (s *stage) takeAddress(text string, at where) error {
	if before, after, ok := strings.Cut(text, ","); ok && s.counted {
		var err error
		if s.count, err = parseCount(after, s.names); err != nil {
			return err
		}
		text = before
	}
	address, err := asAddress(text, at, s.names)
	if err != nil {
		return err
	}
	s.addresses = append(s.addresses, address)
	return nil
}

// flags returns the command's flags, which store their values where r reads
// them.
func (c *command) flags(r *run) *pflag.FlagSet {
	flags := pflag.NewFlagSet(c.name, pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	flags.SortFlags = false
	*r = c.bind(flags)
	useNumbers(flags)
	return flags
}

// use returns the command's usage.
func (c *command) use() string { return strings.TrimSpace(c.name + " " + c.usage) }
