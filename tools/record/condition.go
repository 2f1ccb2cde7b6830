package record

import (
	"fmt"
	"strings"
	"time"

	"github.com/dop251/goja"
)

// Bounds of a condition's run on one record: a record may make a condition take long.
const (
	conditionTime  = 100 * time.Millisecond
	conditionDepth = 256 // of its calls
)

// A Condition is JavaScript that says which records are shown, as bunyan's: the record is its this,
// and TRACE, DEBUG, INFO, WARN, ERROR and FATAL are levels. It runs in an interpreter of its own, goja,
// which has ECMAScript 5.1 and much of 6, and no access to anything else. It is the user's own:
// nothing that a process writes is ever run.
type Condition struct {
	vm       *goja.Runtime
	function goja.Callable
	parse    goja.Callable // JSON.parse
	timer    *time.Timer

	Failed uint64 // records for which it has thrown an exception or took too long
	First  error  // the first of these
}

// NewCondition compiles an expression, or statements that return a value.
func NewCondition(text string) (*Condition, error) {
	c := &Condition{vm: goja.New()}
	c.vm.SetMaxCallStackSize(conditionDepth)
	for i, name := range []string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"} {
		if err := c.vm.Set(name, 10*(i+1)); err != nil {
			return nil, fmt.Errorf("condition %q: %w", text, err)
		}
	}
	program, err := goja.Compile("condition", "(function () { return (\n"+text+"\n); })", false)
	if err != nil {
		statements, statementsErr := goja.Compile("condition", "(function () {\n"+text+"\n})", false)
		if statementsErr != nil {
			return nil, fmt.Errorf("condition %q: %w", text, syntaxError(text, err))
		}
		program = statements
	}
	value, err := c.vm.RunProgram(program)
	if err != nil {
		return nil, fmt.Errorf("condition %q: %w", text, err)
	}
	c.function, _ = goja.AssertFunction(value)
	c.parse, _ = goja.AssertFunction(c.vm.Get("JSON").ToObject(c.vm).Get("parse"))
	c.timer = time.AfterFunc(conditionTime, func() { c.vm.Interrupt("it took too long") })
	c.timer.Stop()
	return c, nil
}

// syntaxError returns what is wrong with a condition by itself, rather than within the function that it is
// made.
func syntaxError(text string, within error) error {
	_, err := goja.Compile("condition", text, false)
	if err == nil || strings.Contains(text, "return") { // which is wrong outside a function
		return within
	}
	return err
}

// Holds reports whether the condition is true of a record. It is not if it fails.
func (c *Condition) Holds(r Record) bool {
	c.vm.ClearInterrupt()
	c.timer.Reset(conditionTime)
	holds, err := c.run(r)
	c.timer.Stop()
	if err != nil {
		c.Failed++
		if c.First == nil {
			c.First = err
		}
	}
	return holds && err == nil
}

func (c *Condition) run(r Record) (holds bool, err error) {
	object, err := c.parse(goja.Undefined(), c.vm.ToValue(r.Line))
	if err != nil {
		return false, err
	}
	value, err := c.function(object)
	if err != nil {
		return false, err
	}
	return value.ToBoolean(), nil
}
