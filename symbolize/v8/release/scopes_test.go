package release_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"
	"strings"
)

// scopeWords bounds the words of a ScopeInfo before the names of its variables.
const scopeWords = 8

// nameAt returns the word of a ScopeInfo in which the first variable's name is.
func (p *probe) nameAt(scope, name string) (at int, ok bool, err error) {
	want, _, err := p.describe("'" + name + "'")
	if err != nil {
		return 0, false, err
	}
	v, _, err := p.find(scope)
	if err != nil {
		return 0, false, err
	}
	data, err := p.readUpTo(uint64(v)-1, scopeWords*word)
	if err != nil {
		return 0, false, err
	}
	found := occurrences(data, uint64(want), field{})
	if len(found) == 0 {
		return 0, false, nil
	}
	return found[0], true, nil
}

// measureInlined sets how many variables are too many for their names to be in the
// ScopeInfo: the least number, or none.
func measureInlined(m *measurement) error {
	const many = 512
	const scope = `eval('(function () { let ' + [...Array(NN).keys()].map(i => 'v' + i + ' = 1').join(', ') + '; return () => ' + [...Array(NN).keys()].map(i => 'v' + i).join('+') + ' })')() > - context: > - scope_info:`
	var wrong error
	least := 1 + sort.Search(many, func(i int) bool {
		_, ok, err := m.probe("").nameAt(strings.ReplaceAll(scope, "NN", fmt.Sprint(i+1)), "v0")
		if err != nil {
			wrong = err
		}
		return !ok
	})
	if wrong != nil {
		return wrong
	}
	if least > many {
		least = math.MaxUint16
	}
	m.set("Scopes.MaxInlined", least)
	return nil
}

// measureModuleVariables sets whether one word more precedes the names of a module's
// variables than those of a function's.
func measureModuleVariables(m *measurement) error {
	p := m.probe("")
	function, ok, err := p.nameAt(`eval('(function () { let y = () => y; return y })')() > - context: > - scope_info:`, "y")
	if !ok || err != nil {
		return fmt.Errorf("no name in the scope of a function: %w", err)
	}
	module, ok, err := p.nameAt("keep.inModule > - context: > - scope_info:", "y")
	if !ok || err != nil || module != function && module != function+word {
		return fmt.Errorf("the name in a module's scope is at %d, that in a function's at %d: %w", module, function, err)
	}
	m.set("Scopes.ModuleVariables", module > function)
	return nil
}

// measureReceiverInfo sets whether scopes with a receiver have one word more before the
// outer scope.
func measureReceiverInfo(m *measurement) error {
	p := m.probe("")
	var outer [2]int
	for i, value := range []string{"1", "this"} {
		v, _, err := p.find(`(f => (f(), f))(eval('(function () { let z = 1; return function () { let x = ` + value + `; return () => x + z } })()')) > - shared_info: > ~SCOPE_INFO_TYPE`)
		if err != nil {
			return err
		}
		data, err := p.readUpTo(uint64(v)-1, maxObject)
		if err != nil {
			return err
		}
		found, err := p.references(data, "~SCOPE_INFO_TYPE")
		if err != nil || len(found) == 0 {
			return fmt.Errorf("no outer scope: %w", err)
		}
		outer[i] = found[0]
	}
	if more := outer[1] - outer[0]; more != 0 && more != word {
		return fmt.Errorf("outer scopes are at %v", outer)
	}
	m.set("Scopes.ReceiverInfo", outer[1] > outer[0])
	return nil
}

// measureSteps sets whether steps in the code are unsigned: as zig-zag coded numbers they
// would lead beyond the code.
func measureSteps(m *measurement) error {
	p := m.probe("")
	v, _, err := p.find("(f => { try { f() } catch (e) { e.stack } return f })(eval('(function () { ' + 'keep.x = 1; '.repeat(100) + 'throw Error() })')) > - bytecode:")
	if err != nil {
		return err
	}
	length, err := p.word(uint64(v) - 1 + word)
	table, err2 := p.word(uint64(v) - 1 + uint64(m.release.Fields["BytecodeArray.source_position_table"]))
	if err != nil || err2 != nil {
		return fmt.Errorf("bytecodes: %w, %w", err, err2)
	}
	size, err := p.word(table - 1 + word)
	if err != nil {
		return err
	}
	data, err := p.read(table-1+2*word, int(size>>32))
	if err != nil {
		return err
	}
	code := int64(-1)
	for len(data) > 0 {
		step, n := binary.Varint(data)
		_, more := binary.Uvarint(data[max(n, 0):])
		if n <= 0 || more <= 0 {
			return fmt.Errorf("the table of positions ends within a number")
		}
		code += max(step, ^step)
		data = data[n+more:]
	}
	m.set("Code.UnsignedSteps", code > int64(length>>32))
	return nil
}

// measureCodeAlign sets the alignment of machine code whose header has no size of its
// own: the greatest that the addresses of many have in common.
func measureCodeAlign(m *measurement) error {
	if m.release.Sizes.Code == 0 {
		m.set("Sizes.CodeAlign", 0)
		return nil
	}
	const many = 32
	common := uint64(0)
	for i := range many {
		object := fmt.Sprintf("(f => (f(), %%CompileBaseline(f), f(), f))(eval('(function () { return 1%s })')) > - code:", strings.Repeat(" + keep.x", i))
		v, _, err := m.probe("").find(object)
		if err != nil {
			return err
		}
		common |= uint64(v) - 1
	}
	m.set("Sizes.CodeAlign", 1<<bits.TrailingZeros64(common))
	return nil
}

// measureScriptContexts sets the header of the table of the contexts that scripts have,
// which is in the native context.
func measureScriptContexts(m *measurement) error {
	const contextSize = 4096 // a table that is new is smaller
	p := m.probe("")
	if _, err := p.evaluate("require('vm').runInThisContext('let script' + keep.length + ' = 1; () => script' + keep.length)"); err != nil {
		return err
	}
	at, _, err := p.find("(0, eval)('(function () {})') > - context:")
	if err != nil {
		return err
	}
	context, err := p.readUpTo(uint64(at)-1, contextSize)
	if err != nil {
		return err
	}
	tables, err := p.references(context, "~SCRIPT_CONTEXT_TABLE_TYPE")
	if err != nil || len(tables) == 0 {
		return fmt.Errorf("no table of script contexts: %w", err)
	}
	table, err := p.readUpTo(binary.LittleEndian.Uint64(context[tables[0]:])-1, contextSize)
	if err != nil {
		return err
	}
	next, err := p.references(table, "~MAP_TYPE") // of the object behind it
	if err != nil || len(next) == 0 {
		return fmt.Errorf("no end of the table of script contexts: %w", err)
	}
	capacity := int(binary.LittleEndian.Uint64(table[word:]) >> 32)
	m.set("Sizes.ScriptContextTable", next[0]-capacity*word)
	return nil
}

// measureClosures sets whether FeedbackMetadata counts the parameters of each closure,
// here of three with an unusual number each.
func measureClosures(m *measurement) error {
	p := m.probe("")
	function := func(n int) string {
		return fmt.Sprintf("function (' + [...Array(%d).keys()].map(i => 'p' + i).join() + ') {}", n)
	}
	const first = 301
	v, _, err := p.find("(f => (f(), f))(eval('(function () { return [" + function(first) + ", " + function(first+1) + ", " + function(first+2) + "] })')) > - shared_info: > ~FEEDBACK_METADATA_TYPE")
	if err != nil {
		return err
	}
	data, err := p.readUpTo(uint64(v)-1, maxObject)
	if err != nil {
		return err
	}
	var counts []uint16
	for o := word; o+2 <= len(data); o += 2 {
		counts = append(counts, binary.LittleEndian.Uint16(data[o:]))
	}
	at := slices.IndexFunc(counts, func(n uint16) bool { return n == first || n == first+1 })
	counted := at >= 0 && at+2 < len(counts) && counts[at+1] == counts[at]+1 && counts[at+2] == counts[at]+2
	m.set("Sizes.FeedbackMetadataClosures", counted)
	return nil
}
