package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"ustack/cmd/internal/cli"
	"ustack/tools/stopon"
)

// An actionFlag makes flags that each add an action. Actions are carried out in
// the order of the flags.
type actionFlag struct {
	actions *[]stopon.Action
	prof    func(context.Context, *stopon.Hit, time.Duration) error
}

// An actionValue is the value of such a flag.
type actionValue struct {
	kind string
	add  func(text string) error
}

func (v *actionValue) String() string        { return "" }
func (v *actionValue) Type() string          { return v.kind }
func (v *actionValue) Set(text string) error { return v.add(text) }

func (a actionFlag) append(action stopon.Action) { *a.actions = append(*a.actions, action) }

// bool is a flag without a value.
func (a actionFlag) bool(flags *pflag.FlagSet, name, usage string, action stopon.Action) {
	flags.Var(&actionValue{"bool", func(text string) error {
		on, err := strconv.ParseBool(text)
		if err == nil && on {
			a.append(action)
		}
		return err
	}}, name, usage)
	flags.Lookup(name).NoOptDefVal = "true"
}

var abort = stopon.Action{Do: stopon.Kill, Signal: unix.SIGABRT}

func (a actionFlag) core() pflag.Value {
	// With an empty default, help shows the flag as --gcore[=.], which is how a
	// value is given.
	return &actionValue{"", func(text string) error {
		a.append(stopon.Action{Do: stopon.Core, Pattern: text})
		return nil
	}}
}

func (a actionFlag) kill() pflag.Value {
	return &actionValue{"SIG", func(text string) error {
		s, ok := parseSignal(text)
		if !ok {
			return errors.New("no such signal")
		}
		a.append(stopon.Action{Do: stopon.Kill, Signal: s})
		return nil
	}}
}

func (a actionFlag) exec() pflag.Value {
	return &actionValue{"CMD", func(text string) error {
		a.append(stopon.Action{Do: stopon.Exec, Command: text})
		return nil
	}}
}

func (a actionFlag) profile() pflag.Value {
	return &actionValue{"DUR", func(text string) error {
		var d cli.Duration
		if err := d.Set(text); err != nil {
			return err
		}
		a.append(stopon.Action{Do: stopon.Call, Function: func(ctx context.Context, h *stopon.Hit) error {
			return a.prof(ctx, h, time.Duration(d))
		}})
		return nil
	}}
}
