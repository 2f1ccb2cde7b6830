package release_test

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A field says how the offset of a field is measured: in several objects that
// differ in it, the field is where each has its own value.
type field struct {
	name string // "Class.field"
	// object is JavaScript, in which NN is the number of the object, then steps
	// from what V8 prints about an object to the next object. V8 has printed
	// "#x: 0x1234" or "- table: 0x1234", and the step is "#x:" or "- table:".
	object string
	// value is what the field holds: "= " and JavaScript, where o is the first
	// object; "raw " and JavaScript for a plain number; or a step to a value, or after "plain "
	// to a number.
	// ~JS_ARRAY_TYPE is the only reference to an object of a type whose name matches,
	// ~SMI the only Smi that is not 0.
	value string
	size  int    // bytes that the value takes; 8 if zero
	mask  uint64 // bits that count; all if zero
	needs string // an instance type of the releases that have it, or "not " and one of those that do not
	flags string // of the process
	weak  bool   // the value is a weak reference

	metadata string // prefix of the metadata that has the offset in some releases
	without  string // prefix of metadata that releases without the field lack

	optional bool // a release in which no offset has the values lacks the field
}

const (
	accessors = `({['q' + keep.length]: 1, get x() { return NN }, set x(v) {}}) > #x:`
	pending   = `(p => (p.then(() => NN, () => -NN), p.then(() => NN), p))(new Promise(() => {})) > - reactions?:`
	generator = `(f => { const g = f.call({receiver: NN}, NN); g.next(); g.next(NN); return g })(eval('(function* () { yield this; ' + 'yield NN; '.repeat(NN) + '})'))`
	queue     = `(f => { const g = f(); g.next(NN); g.next(NN); return g })(async function* () { yield new Promise(() => {}) })`
	request   = queue + ` > ~ASYNC_GENERATOR_REQUEST_TYPE`
	registry  = `(() => { const r = new FinalizationRegistry(() => NN); for (const h of [-NN, NN]) r.register(keep[keep.push({}) - 1], h, keep[keep.push({}) - 1]); return r })()`
	cell      = registry + ` > - active_cells:`
	cleared   = `(() => { const r = new FinalizationRegistry(() => NN); (() => r.register({}, NN))(); gc(); return r })()`
	class     = `eval('"' + 'x'.repeat(NN) + '"; (class { m() {} ' + 'y;'.repeat(NN) + ' static s = 1 })') > class_positions_symbol.*?:`
	pattern   = `new RegExp('ab+NN', ['', 'g', 'i', 'm'][NN])`
	view      = `new Uint16Array(new ArrayBuffer(0x4000), 8 * NN, 0x1234 + NN)`
	flagged   = `(0, require('vm').runInNewContext)('[0, new DataView(new ArrayBuffer(8)), new DataView(new ArrayBuffer(8, {maxByteLength: 16})), new DataView(new ArrayBuffer(8, {maxByteLength: 16}), 0, 4)]')[NN]`
	frame     = `(keep.r = {receiver: NN}, keep.f = eval('(function () { "use strict"; ' + 'keep; '.repeat(NN) + 'return Error().stack })'), Error.prepareStackTrace = (_, sites) => sites, keep.r = [keep.r, keep.f.call(keep.r)], Error.prepareStackTrace = undefined, keep.r[1][0]) > call_site\w*_symbol\)>:`
	awaiting  = `(p => { (async () => { await p })(); return p })(new Promise(() => {})) > - reactions?: > - fulfill_handler: > - context: > ~JS_ASYNC_FUNCTION_OBJECT_TYPE`
	compiled  = `(f => (f(), %CompileBaseline(f), f(), f))(eval('(function () { return NN })'))`
	global    = `(globalThis.gNN = {}, (f => (%PrepareFunctionForOptimization(f), f(), f))(eval('(function () { return gNN })'))) > (0x[0-9a-f]+) <PropertyCell`
	formatted = `(() => { const s = new (require('inspector').Session); s.connect(); s.post('Runtime.enable'); const e = Error(); e.stack; return e })() > error_stack_symbol\)>:`
)

var fields = []field{
	{name: "AccessorPair.getter", object: accessors, value: "= Object.getOwnPropertyDescriptor(o, 'x').get"},
	{name: "AccessorPair.setter", object: accessors, value: "= Object.getOwnPropertyDescriptor(o, 'x').set"},
	{name: "AsyncGeneratorRequest.next", object: request, value: "- next:"},
	{name: "AsyncGeneratorRequest.promise", object: request, value: "~JS_PROMISE_TYPE"},
	{name: "BaselineData.bytecode_or_interpreter_data", object: compiled + " > - shared_info: > ~BASELINE_DATA_TYPE", value: "~BYTECODE_ARRAY_TYPE", needs: "BASELINE_DATA_TYPE"},
	{name: "BigInt.bitfield", object: "[0n, 5n, -5n, 2n ** 70n][NN]", value: "raw [0, 2, 3, 4][NN]", size: 4},
	{name: "BigInt.digits", object: "-BigInt(0x123456789abcd * NN)", value: "raw 0x123456789abcd * NN"},
	{name: "BytecodeWrapper.bytecode", object: compiled + " > - code: > ~BYTECODE_ARRAY_TYPE > ~BYTECODE_WRAPPER_TYPE", value: "~BYTECODE_ARRAY_TYPE", needs: "BYTECODE_WRAPPER_TYPE"},
	{name: "CallSiteInfo.code_object", object: frame, value: "~(CODE|BYTECODE_ARRAY|BYTECODE_WRAPPER)_TYPE"},
	{name: "CallSiteInfo.code_offset", object: frame, value: "- code_offset_or_source_position:"},
	{name: "CallSiteInfo.flags", object: frame, value: "- flags:"},
	{name: "CallSiteInfo.function", object: frame, value: "= keep.f"},
	{name: "CallSiteInfo.receiver_or_instance", object: frame, value: "= keep.r[0]"},
	{name: "Cell.value", object: "keep.modules[NN] > - module: > - exports: > ~CELL_TYPE", value: "= keep.modules[NN].x"},
	{name: "ClassPositions.end", object: class, value: "- end(?:.position)?:"},
	{name: "ClassPositions.start", object: class, value: "- start(?:.position)?:"},
	{name: "Code.bytecode_or_interpreter_data", object: compiled + " > - code:", value: "~BYTECODE_ARRAY_TYPE", needs: "not BASELINE_DATA_TYPE"},
	{name: "ErrorStackData.formatted", object: formatted, value: "~STRING_TYPE", needs: "ERROR_STACK_DATA_TYPE"},
	{name: "InterpreterData.bytecode_array", object: "(f => (f(), f))(eval('(function () { return NN })')) > - shared_info: > ~INTERPRETER_DATA_TYPE", value: "~BYTECODE_ARRAY_TYPE", flags: "--interpreted-frames-native-stack --log-code --logfile=+ --no-logfile-per-isolate"},
	{name: "JSArray.length", object: "Array(1000 * NN).fill(0)", value: "= 1000 * NN"},
	{name: "JSArrayBuffer.bit_field", object: "[0, new ArrayBuffer(8), new SharedArrayBuffer(16), new ArrayBuffer(24)][NN]", value: "raw [0, 2, 16, 2][NN]", size: 4},
	{name: "JSArrayBuffer.max_byte_length", object: "require('vm').runInNewContext('new ArrayBuffer(8 * NN, {maxByteLength: 4096 * NN})')", value: "raw 4096 * NN"},
	{name: "JSArrayBufferView.bit_field", object: flagged, value: "raw [0, 0, 3, 2][NN]", size: 4, mask: 3, optional: true},
	{name: "JSArrayBufferView.buffer", object: view, value: "= o.buffer"},
	{name: "JSArrayBufferView.byte_length", object: view, value: "raw 2 * (0x1234 + NN)"},
	{name: "JSArrayBufferView.byte_offset", object: view, value: "raw 8 * NN"},
	{name: "JSAsyncFunctionObject.promise", object: awaiting, value: "~JS_PROMISE_TYPE"},
	{name: "JSAsyncGeneratorObject.is_awaiting", object: "(f => { const g = f(); if (NN == 2) g.next(); return g })(async function* () { if (keep.never) await 0; await new Promise(() => {}) })", value: "= [0, 0, 1, 0][NN]"},
	{name: "JSAsyncGeneratorObject.queue", object: queue, value: "~ASYNC_GENERATOR_REQUEST_TYPE"},
	{name: "JSBoundFunction.bound_arguments", object: "(() => {}).bind({}, NN)", value: "- bound_arguments:"},
	{name: "JSBoundFunction.bound_target_function", object: "(() => {}).bind({}, NN)", value: "- bound_target_function:"},
	{name: "JSBoundFunction.bound_this", object: "(() => {}).bind(Object('NN'), NN)", value: "- bound_this:"},
	{name: "JSFinalizationRegistry.active_cells", object: registry, value: "- active_cells:"},
	{name: "JSFinalizationRegistry.cleanup", object: registry, value: "- cleanup:"},
	{name: "JSFinalizationRegistry.cleared_cells", object: cleared, value: "- cleared_cells:"},
	{name: "JSFunction.prototype_or_initial_map", object: "(f => (new f, f))(function () { this.x = NN })", value: "- initial_map:"},
	{name: "JSGeneratorObject.context", object: generator, value: "- context:"},
	{name: "JSGeneratorObject.continuation", object: generator, value: "- continuation:"},
	{name: "JSGeneratorObject.function", object: generator, value: "- function:"},
	{name: "JSGeneratorObject.input_or_debug_pos", object: generator, value: "- (?:input|debug pos):"},
	{name: "JSGeneratorObject.receiver", object: generator, value: "- receiver:"},
	{name: "JSGeneratorObject.parameters_and_registers", object: generator, value: "- register file:"},
	{name: "JSGeneratorObject.resume_mode", object: "(f => { const g = f(); g.next(); if (NN == 2) g.throw(1); return g })(function* () { try { yield 1 } catch { yield 2 } })", value: "= [0, 0, 2, 0][NN]"},
	{name: "JSMap.table", object: "new Map([[NN, NN]])", value: "- table:"},
	{name: "JSModuleNamespace.module", object: "keep.modules[NN]", value: "- module:"},
	{name: "JSPrimitiveWrapper.value", object: "new Number(1000 * NN)", value: "= 1000 * NN"},
	{name: "JSPromise.flags", object: "[0, Promise.resolve(1), new Promise(() => {}), Promise.resolve(2)][NN]", value: "= [0, 1, 0, 1][NN]"},
	{name: "JSPromise.reactions_or_result", object: "Promise.resolve(1000 * NN)", value: "= 1000 * NN"},
	{name: "JSProxy.handler", object: "new Proxy([], keep.handler = {NN: 1})", value: "= keep.handler"},
	{name: "JSProxy.target", object: "new Proxy(keep.target = [NN], {})", value: "= keep.target"},
	{name: "JSRegExp.data", object: pattern, value: "- data:"},
	{name: "JSRegExp.flags", object: pattern, value: "= [0, 1, 2, 4][NN]"},
	{name: "JSRegExp.source", object: pattern, value: "= o.source"},
	{name: "JSSet.table", object: "new Set([NN])", value: "- table:"},
	{name: "JSWeakCollection.table", object: "new WeakMap()", value: "- table:"},
	{name: "JSWeakRef.target", object: "new WeakRef(keep.target = {})", value: "= keep.target"},
	{name: "Module.exports", object: "keep.modules[NN] > - module:", value: "- exports:"},
	{name: "PromiseCapability.promise", object: "(p => (Promise.prototype.then.call(p, () => {}), p))((class extends Promise {}).resolve(new Promise(() => {}))) > - reactions?: > - promise_or_capability:", value: "~JS_PROMISE_TYPE"},
	{name: "PromiseReaction.fulfill_handler", object: pending, value: "- fulfill_handler:"},
	{name: "PromiseReaction.next", object: pending, value: "- next:"},
	{name: "PromiseReaction.promise_or_capability", object: pending, value: "- promise_or_capability:"},
	{name: "PromiseReaction.reject_handler", object: pending + " > - next:", value: "- reject_handler:"},
	{name: "PropertyCell.name", object: global, value: "= 'gNN'"},
	{name: "PropertyCell.property_details_raw", object: global, value: "~SMI"},
	{name: "PropertyCell.value", object: global, value: "= gNN"},
	{name: "Symbol.description", object: "Symbol('descriptionNN')", value: "= o.description"},
	{name: "WeakCell.finalization_registry", object: cell, value: "- finalization_registry:"},
	{name: "WeakCell.holdings", object: cell, value: "- holdings:"},
	{name: "WeakCell.target", object: cell, value: "- target:"},
	{name: "WeakCell.unregister_token", object: cell, value: "- unregister_token:"},
}

// samples is how many objects a field is looked for in, and maxObject how many
// bytes of each.
const (
	samples   = 3
	maxObject = 512
)

// errAbsent means that a release lacks a field.
var errAbsent = errors.New("no such field")

// offset returns the offset of f, which must be the only one that has each
// object's value.
func (p *probe) offset(f field) (int, error) {
	var candidates []int
	for sample := 1; sample <= samples; sample++ {
		found, err := p.candidates(f, sample)
		if err != nil {
			return 0, fmt.Errorf("object %d of %s: %w", sample, f.name, err)
		}
		if sample == 1 {
			candidates = found
		}
		candidates = slices.DeleteFunc(candidates, func(o int) bool { return !slices.Contains(found, o) })
	}
	if f.optional && len(candidates) == 0 {
		return 0, errAbsent
	}
	if len(candidates) != 1 {
		return 0, fmt.Errorf("%s may be at any of the offsets %v", f.name, candidates)
	}
	return candidates[0], nil
}

// candidates makes one object and returns where it has its field's value.
func (p *probe) candidates(f field, number int) ([]int, error) {
	numbered := func(text string) string { return strings.ReplaceAll(text, "NN", fmt.Sprint(number)) }
	object, text, err := p.find(numbered(f.object))
	if err != nil {
		return nil, err
	}
	data, err := p.object(object, text)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(f.value, "~") {
		return p.references(data, f.value)
	}
	want, err := p.want(text, numbered(f.value))
	if err != nil {
		return nil, err
	}
	if f.weak {
		want |= weakBit
	}
	return occurrences(data, want, f), nil
}

// want returns the value of a field of the object that V8 printed as text.
func (p *probe) want(text, value string) (uint64, error) {
	if expression, ok := strings.CutPrefix(value, "raw "); ok {
		return p.number(expression)
	}
	if step, ok := strings.CutPrefix(value, "plain "); ok { // a plain number, printed in decimal
		v, err := p.step(nil, text, step)
		return uint64(v) >> 32, err
	}
	if expression, ok := strings.CutPrefix(value, "= "); ok {
		v, _, err := p.describe(expression)
		return uint64(v), err
	}
	v, err := p.step(nil, text, value)
	return uint64(v), err
}

// weakBit is set in weak references.
const weakBit = 2

// number evaluates an expression of a whole number.
func (p *probe) number(expression string) (n uint64, err error) {
	text, err := p.evaluate("console.log(String(" + expression + "))")
	if err != nil {
		return 0, err
	}
	if _, err := fmt.Sscan(text, &n); err != nil {
		return 0, fmt.Errorf("number %q: %w", text, err)
	}
	return n, nil
}

// occurrences returns the aligned offsets at which an object has a value, behind
// its map.
func occurrences(data []byte, want uint64, f field) (offsets []int) {
	size, mask := cmp.Or(f.size, 8), cmp.Or(f.mask, math.MaxUint64)
	for o := 8; o+size <= len(data); o += size {
		var word [8]byte
		copy(word[:], data[o:o+size])
		if binary.LittleEndian.Uint64(word[:])&mask == want {
			offsets = append(offsets, o)
		}
	}
	return offsets
}

// references returns the offsets of what a value with "~" describes.
func (p *probe) references(data []byte, value string) (offsets []int, err error) {
	form, err := regexp.Compile("^" + strings.TrimPrefix(value, "~") + "$")
	if err != nil {
		return nil, err
	}
	for o := 8; o+8 <= len(data); o += 8 {
		if form.MatchString(p.kind(p, tagged(binary.LittleEndian.Uint64(data[o:])))) {
			offsets = append(offsets, o)
		}
	}
	return offsets, nil
}

// kind returns the name of a value's instance type, or SMI for one that is not 0.
func (m *measurement) kind(p *probe, v tagged) string {
	if v&1 == 0 {
		if v != 0 && uint32(v) == 0 {
			return "SMI"
		}
		return ""
	}
	class, err := p.word(uint64(v&^weakBit) - 1)
	if err != nil || class&1 == 0 {
		return ""
	}
	offset, _ := m.binary.lookup("class_Map__instance_type__")
	data, err := p.read(class-1+uint64(offset), 2)
	if err != nil {
		return ""
	}
	number := binary.LittleEndian.Uint16(data)
	if first, _ := m.binary.lookup("FirstNonstringType"); int64(number) < first {
		return "STRING_TYPE"
	}
	return m.types[number]
}

// find returns the object of a field's description, and what V8 prints about it.
func (p *probe) find(object string) (v tagged, text string, err error) {
	steps := strings.Split(object, " > ")
	if _, err := p.evaluate("globalThis.o = keep[keep.push(" + steps[0] + ") - 1]"); err != nil {
		return 0, "", err
	}
	v, text, err = p.describe("o")
	for _, s := range steps[1:] {
		if err != nil {
			return 0, "", err
		}
		var data []byte
		if data, err = p.object(v, text); err != nil {
			return 0, "", err
		}
		if v, err = p.step(data, text, s); err == nil {
			text, err = p.describeAt(v)
		}
	}
	return v, text, err
}

// step returns the object that a step leads to, from the object with these bytes.
func (p *probe) step(data []byte, text, step string) (tagged, error) {
	if strings.HasPrefix(step, "~") {
		offsets, err := p.references(data, step)
		if err != nil || len(offsets) == 0 {
			return 0, fmt.Errorf("no %s in %.400q: %w", step, text, err)
		}
		return tagged(binary.LittleEndian.Uint64(data[offsets[0]:])), nil
	}
	if !strings.Contains(step, "(0x") {
		step += `\s*(0x[0-9a-f]+|-?\d+)`
	}
	form, err := regexp.Compile(step)
	if err != nil {
		return 0, err
	}
	found := form.FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("no %q in %.1000q", step, text)
	}
	return value(found[len(found)-1]), nil
}

var printedSize = regexp.MustCompile(`- instance size: (\d+)\n`)

// object returns the bytes of the object that V8 printed as text.
func (p *probe) object(v tagged, text string) ([]byte, error) {
	size := maxObject
	if strings.Contains(text, "Instructions (size = ") {
		size = codeSize // V8 prints the size in hexadecimal after code
	} else if found := printedSize.FindStringSubmatch(text); found != nil && found[1] != "0" {
		size, _ = strconv.Atoi(found[1])
	}
	return p.readUpTo(uint64(v)-1, size)
}

const codeSize = 96
