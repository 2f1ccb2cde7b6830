package release_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

const (
	script  = `new (require('vm').Script)('(function () { return NN })\n//# sourceURL=urlNN\n//# sourceMappingURL=mapNN', {lineOffset: 1000 * NN, columnOffset: 2000 * NN}).runInThisContext() > - shared_info: > - script:`
	shared  = `(f => (f(), f))(eval('(function () { return NN })')) > - shared_info:`
	builtin = `[0, Math.max, Math.min, Array.prototype.map][NN] > - shared_info:`
	stopped = `((s, f) => (s.connect(), s.post('Debugger.enable'), globalThis.stopped = f, f(), s.post('Runtime.evaluate', {expression: 'stopped'}, (_, r) => s.post('Debugger.setBreakpointOnFunctionCall', {objectId: r.result.objectId})), f))(new (require('inspector').Session), eval('(function () { return NN })')) > - shared_info: > ~DEBUG_INFO_TYPE`
	handle  = `new (process.binding(['', 'tcp_wrap', 'pipe_wrap', 'tcp_wrap'][NN])[['', 'TCP', 'Pipe', 'TCP'][NN]])(0)`
	api     = `process.binding(['', 'tcp_wrap', 'pipe_wrap', 'udp_wrap'][NN])[['', 'TCP', 'Pipe', 'UDP'][NN]] > - shared_info: > ~FUNCTION_TEMPLATE_INFO_TYPE`
	global1 = `(f => (%PrepareFunctionForOptimization(f), f(), f))(eval('globalThis.gNN = {}; (function () { return gNN })'))`
	optimal = `((f) => (%PrepareFunctionForOptimization(f), f(), f(), %OptimizeFunctionOnNextCall(f), f(), f))(eval('(() => { ' + [1, 2, 3].slice(0, NN).map(n => 'const g' + n + ' = () => keep.x; %PrepareFunctionForOptimization(g' + n + '); g' + n + '(); ').join('') + ' return function () { return ' + [1, 2, 3].slice(0, NN).map(n => 'g' + n + '()').join('+') + ' } })()'))`
	wasm    = `(keep.instance = new WebAssembly.Instance(keep.compiled = new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 7, 5, 1, 1, 102, 0, 0, 10, 4, 1, 2, 0, 11]))))`
)

// layouts are the offsets in the groups of a Release.
var layouts = []field{
	{name: "Functions.Properties", object: "(f => (f['x' + keep.length] = NN, f))(function () {})", value: "- properties:"},
	{name: "Functions.SharedData", object: shared, value: "~BYTECODE_ARRAY_TYPE"},
	{name: "Functions.BuiltinID", object: builtin, value: "~SMI"},
	{name: "Functions.DebugInfoScript", object: stopped, value: "~SCRIPT_TYPE", metadata: "class_SharedFunctionInfo__script__"},
	{name: "Functions.TemplateShared", object: api, value: "~SHARED_FUNCTION_INFO_TYPE", without: "frametype_ApiCallbackExitFrame"},
	{name: "Scripts.Source", object: script, value: "- source:", metadata: "class_Script__source__"},
	{name: "Scripts.LineOffset", object: script, value: "= 1000 * NN"},
	{name: "Scripts.ColumnOffset", object: script, value: "= 2000 * NN"},
	{name: "Scripts.ID", object: script, value: "- id:"},
	{name: "Scripts.SourceURL", object: script, value: "- source_url:"},
	{name: "Scripts.SourceMapURL", object: script, value: "= 'mapNN'"},
	{name: "Objects.EmbedderFields", object: handle, value: `\n - embedder fields = \{\s+-?\d+, aligned pointer:`},
	{name: "Sizes.DescriptorArray", object: "[0, {x1: 1}, {x2: 1}, {x3: 1}][NN] > - map: > - instance descriptors.*?:", value: "= 'xNN'"},
	{name: "Sizes.FeedbackVector", object: global1 + ` > - feedback vector:`, value: `(0x[0-9a-f]+) <PropertyCell`, weak: true},
	{name: "Wasm.Module", object: wasm, value: "= keep.compiled"},
	{name: "Wasm.Script", object: wasm + ".exports && keep.compiled", value: "~SCRIPT_TYPE"},
	{name: "Wasm.Instance", object: wasm + " > ~WASM_TRUSTED_INSTANCE_DATA_TYPE", value: "= keep.instance", needs: "WASM_TRUSTED_INSTANCE_DATA_TYPE"},
}

// measureLayouts sets the offsets in the groups. Those that the metadata has are
// zero.
func measureLayouts(m *measurement) error {
	var wrong []error
	for _, f := range layouts {
		offset := 0
		if m.inRelease(f) {
			var err error
			if offset, err = m.probe(f.flags).offset(f); err != nil {
				wrong = append(wrong, err)
				continue
			}
		}
		m.set(f.name, offset)
	}
	return errors.Join(wrong...)
}

// inRelease reports whether the offset of f belongs in the release.
func (m *measurement) inRelease(f field) bool {
	_, known := m.binary.lookup(f.metadata)
	_, exists := m.binary.lookup(f.without)
	return m.exists(f) && (f.metadata == "" || !known) && (f.without == "" || exists)
}

// measureScriptType sets where a script has its type: 2 for JavaScript, 3 for
// WebAssembly.
func measureScriptType(m *measurement) error {
	if _, ok := m.binary.lookup("class_Script__type__"); ok {
		m.set("Scripts.Type", 0)
		return nil
	}
	javascript := field{name: "Scripts.Type", object: script, value: "= 2"}
	webassembly := field{name: "Scripts.Type", object: wasm + ".exports && keep.compiled > ~SCRIPT_TYPE", value: "= 3"}
	all, err := m.probe("").candidates(javascript, 1)
	some, err2 := m.probe("").candidates(webassembly, 1)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	both := intersection(all, some)
	if len(both) != 1 {
		return fmt.Errorf("Scripts.Type may be at any of %v", both)
	}
	m.set("Scripts.Type", both[0])
	return nil
}

// measureFunctionCode sets where a JSFunction has its code, or a handle of it.
func measureFunctionCode(m *measurement) error {
	f := field{name: "Functions.Code", object: `[0, Math.max, Math.min, Array.prototype.map][NN]`, value: "- dispatch_handle:", size: 4}
	_, text, err := m.probe("").find("Math.max")
	if err != nil {
		return err
	}
	handles := strings.Contains(text, f.value)
	m.set("Functions.DispatchHandle", handles)
	if !handles {
		f.value, f.size = "- code:", 8
		for _, prefix := range []string{"class_JSFunction__code__", "class_JSFunction__raw_code__"} {
			if _, ok := m.binary.lookup(prefix); ok {
				m.set("Functions.Code", 0)
				return nil
			}
		}
	}
	offset, err := m.probe("").offset(f)
	if err == nil {
		m.set("Functions.Code", offset)
	}
	return err
}

// measureCode sets the layout of machine code.
func measureCode(m *measurement) error {
	m.set("Code.Streams", m.hasType("INSTRUCTION_STREAM_TYPE"))
	p := m.probe("")
	start := field{name: "Code.Start", object: optimal + " > - code:", value: `(?m)^(0x[0-9a-f]+)\s+0  `}
	offset, err := p.offset(start)
	_, inMetadata := m.binary.lookup("class_Code__instruction_start__")
	m.set("Code.StartIsPointer", err == nil)
	if inMetadata {
		offset = 0
	} else if err != nil {
		return err
	}
	m.set("Code.Start", offset)
	size := 0
	if _, ok := m.binary.lookup("class_Code__instruction_size__"); !ok {
		if size, err = p.offset(field{name: "Code.Size", object: optimal + " > - code:", value: `plain Instructions \(size =`, size: 4}); err != nil {
			return err
		}
	}
	m.set("Code.Size", size)
	deopt, err := p.offset(field{name: "Code.Deopt", object: optimal + " > - code:", value: "~(PROTECTED_|TRUSTED_)?FIXED_ARRAY_TYPE"})
	if err != nil {
		return err
	}
	m.set("Code.Deopt", deopt)
	return m.measureDeopt(deopt)
}

// measureDeopt sets the indexes of DeoptimizationData, by functions with one, two
// and three inlined functions.
func (m *measurement) measureDeopt(deopt int) error {
	const position = 16 // bytes of an InliningPosition
	type indexes struct {
		inlined, literals, shared, inlinings int
		wrapped                              bool
	}
	p := m.probe("")
	found, err := common(m, optimal+" > - code:", func(_ tagged, text string, data []byte, number int) (all []indexes, err error) {
		array, err := p.object(tagged(binary.LittleEndian.Uint64(data[deopt:])), "")
		if err != nil {
			return nil, err
		}
		const header = 16
		count := int(binary.LittleEndian.Uint64(array[8:]) >> 32)
		places := map[string][]int{}
		wrapped := false
		for i := range min(count, len(array)/8-2) {
			v := binary.LittleEndian.Uint64(array[header+8*i:])
			kind := p.kind(p, tagged(v))
			length, _ := p.word(v + 7)
			first, _ := p.word(v + 15)
			switch {
			case v == uint64(number)<<32:
				places["inlined"] = append(places["inlined"], i)
			case strings.HasSuffix(kind, "BYTE_ARRAY_TYPE") && length == uint64(number*position)<<32:
				places["inlinings"] = append(places["inlinings"], i)
			case strings.HasSuffix(kind, "FIXED_ARRAY_TYPE") && p.kind(p, tagged(first)) == "SHARED_FUNCTION_INFO_TYPE":
				places["literals"] = append(places["literals"], i)
			case strings.HasPrefix(kind, "SHARED_FUNCTION_INFO"):
				places["shared"] = append(places["shared"], i)
				wrapped = kind != "SHARED_FUNCTION_INFO_TYPE"
			}
		}
		for _, inlined := range places["inlined"] {
			for _, literals := range places["literals"] {
				for _, shared := range places["shared"] {
					for _, inlinings := range places["inlinings"] {
						all = append(all, indexes{inlined, literals, shared, inlinings, wrapped})
					}
				}
			}
		}
		return all, nil
	})
	if err != nil {
		return err
	}
	m.set("Code.DeoptInlined", found.inlined)
	m.set("Code.DeoptLiterals", found.literals)
	m.set("Code.DeoptShared", found.shared)
	m.set("Code.DeoptInlinings", found.inlinings)
	m.set("Code.SharedWrapped", found.wrapped)
	return nil
}

// measureTraces sets how calls are named in an error's stack, by such stacks.
func measureTraces(m *measurement) error {
	first := func(body string) (string, error) {
		text, err := m.probe("").evaluate("console.log((() => { " + body + " })().split('\\n')[1].trim().replace(/ \\(.*/, ''))")
		return strings.TrimSpace(text), err
	}
	const stack = "{ return Error().stack }"
	var wrong []error
	for name, quirk := range map[string]struct{ body, with, without string }{
		"ClassReceivers":    {"class A { static m() " + stack + " } return A.m()", "at A.m", "at Function.m"},
		"FunctionReceivers": {"function F() {} F.m = function m() " + stack + "; return F.m()", "at F.m", "at Function.m"},
		"ClassByPrefix":     {"class Foo { FooBar() " + stack + " } return new Foo().FooBar()", "at FooBar", "at Foo.FooBar"},
		"AccessorsPlain":    {"class A { get x() " + stack + " } return new A().x", "get x", "get x [as x]"},
	} {
		got, err := first(quirk.body)
		switch {
		case err != nil:
			wrong = append(wrong, err)
		case strings.HasSuffix(got, quirk.with) || strings.HasSuffix(got, quirk.without):
			m.set("Traces."+name, strings.HasSuffix(got, quirk.with))
		default:
			wrong = append(wrong, fmt.Errorf("Traces.%s: a call is named %q", name, got))
		}
	}
	return errors.Join(wrong...)
}

func intersection(a, b []int) (both []int) {
	for _, x := range a {
		for _, y := range b {
			if x == y {
				both = append(both, x)
			}
		}
	}
	return both
}
