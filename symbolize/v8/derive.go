package v8

import (
	"debug/elf"
	"fmt"
	"math"
	"slices"
	"strings"

	"ustack/symbolize/v8/release"
)

// A derivation fills in a Layout from a release and from metadata, which takes
// precedence.
type derivation struct {
	metadata metadata
	missing  []string // in neither source
	wrong    []string // metadata with an impossible value
}

// derive returns the layout that m and r describe together, in code for machine.
func derive(m metadata, r *release.Release, machine elf.Machine) (Layout, error) {
	d := &derivation{metadata: m}
	l := measured(r)
	d.types(&l, r.Functions.Types)
	d.objects(&l)
	d.code(&l)
	d.frames(&l)
	l.placeRegExp(machine)
	if len(d.missing)+len(d.wrong) > 0 {
		return Layout{}, fmt.Errorf("read V8's metadata: not there: [%s], out of range: [%s]",
			strings.Join(d.missing, " "), strings.Join(d.wrong, " "))
	}
	return l, nil
}

// measured returns the part of the layout that r has and metadata omits.
func measured(r *release.Release) Layout {
	function, code, script, scope, frame, wasm := &r.Functions, &r.Code, &r.Scripts, &r.Scopes, &r.Frames, &r.Wasm
	l := Layout{
		FunctionProperties: function.Properties, FunctionCode: function.Code, DispatchHandle: bit(function.DispatchHandle),
		SharedData: function.SharedData, SharedID: function.BuiltinID,
		DebugInfoScript: function.DebugInfoScript, TemplateShared: function.TemplateShared,
		KindMembers: function.MemberInitializerKind, KindStatic: function.StaticInitializerKind,

		ScriptSource: script.Source, ScriptLineOffset: script.LineOffset, ScriptColumnOffset: script.ColumnOffset,
		ScriptID: script.ID, ScriptSourceURL: script.SourceURL, ScriptSourceMapURL: script.SourceMapURL, ScriptType: script.Type,
		ExternalData: r.Strings.External,

		ScopeFlagsSmi: bit(scope.FlagsAreSmi), ScopeMaxInlined: scope.MaxInlined,
		ScopePositions: scope.Positions, ScopeReceiver: bit(scope.ReceiverInfo),

		CodeStart: code.Start, CodeStartPointer: bit(code.StartIsPointer), CodeSize: code.Size, CodeFlags: code.Flags,
		CodeKindMask: code.KindMask, KindBaseline: code.Baseline, KindMaglev: code.Maglev, KindTurbofan: code.Turbofan,

		FPBytecodeArray: frame.BytecodeArray, FPBytecodeOffset: frame.BytecodeOffset,
		BuiltinExitFunction: frame.BuiltinExitFunction, APIExitFunction: frame.APIExitFunction,
		RegExpArgument: frame.RegExpArgument,

		WasmInstance: wasm.Instance, WasmModule: wasm.Module, WasmScript: wasm.Script, WasmKindBits: wasm.KindBits,
	}
	for i, name := range scope.Types {
		if slices.Contains(scope.TypesWithPositions, name) {
			l.ScopePositionsOf |= 1 << i
		}
		if name == moduleScope && scope.ModuleVariables {
			l.ScopeModule = uint8(i + 1)
		}
	}
	return l
}

// bit returns 1 for true.
func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

type integer interface{ int16 | uint16 | uint8 }

// need sets dst to the metadata's value of the first of names that exists. If
// none does, dst must already have its value from the release.
func need[T integer](d *derivation, dst *T, names ...string) {
	may(d, dst, names...)
	if *dst == 0 {
		d.missing = append(d.missing, names[0])
	}
}

// may is need for values that not every V8 has.
func may[T integer](d *derivation, dst *T, names ...string) {
	v, ok := d.metadata.lookup(names...)
	if !ok {
		return
	}
	if int32(T(v)) != v {
		d.wrong = append(d.wrong, names[0])
		return
	}
	*dst = T(v)
}

func (d *derivation) types(l *Layout, functions uint16) {
	need(d, &l.FirstJSFunction, "FirstJSFunctionType", "type_JSFunction__")
	l.LastJSFunction = l.FirstJSFunction + functions
	may(d, &l.LastJSFunction, "LastJSFunctionType")
	need(d, &l.SharedFunctionInfo, "type_SharedFunctionInfo__")
	need(d, &l.ScopeInfo, "type_ScopeInfo__")
	need(d, &l.Script, "type_Script__")
	need(d, &l.Code, "type_Code__")
	need(d, &l.BytecodeArray, "type_BytecodeArray__")
	need(d, &l.FirstNonstring, "FirstNonstringType")
	need(d, &l.PropertyArray, "type_PropertyArray__")
	need(d, &l.JSBoundFunction, "type_JSBoundFunction__")
	need(d, &l.FunctionTemplate, "type_FunctionTemplateInfo__")
	need(d, &l.Oddball, "type_Oddball__")
	need(d, &l.HeapNumber, "type_HeapNumber__")
	if l.DebugInfoScript != 0 {
		need(d, &l.DebugInfo, "type_DebugInfo__")
	}
	first, last, _ := d.metadata.span("type_UncompiledData")
	if first <= 0 || last > math.MaxUint16 {
		d.missing = append(d.missing, "type_UncompiledData")
	}
	l.FirstUncompiled, l.LastUncompiled = uint16(first), uint16(last)
}

func (d *derivation) objects(l *Layout) {
	need(d, &l.MapInstanceType, "class_Map__instance_type__")
	need(d, &l.MapInstanceSize, "class_Map__instance_size_in_words__")
	need(d, &l.MapInobject, "class_Map__inobject_properties_start_or_constructor_function_index__")
	need(d, &l.MapBitField3, "class_Map__bit_field3__")
	need(d, &l.MapDescriptors, "class_Map__instance_descriptors__")
	need(d, &l.MapPrototype, "class_Map__prototype__")
	need(d, &l.MapConstructor, "class_Map__constructor_or_back_pointer__")
	need(d, &l.DescriptorsHeader, "class_DescriptorArray__header_size__")
	need(d, &l.DictionaryBit, "bit_field3_is_dictionary_map_shift")
	need(d, &l.DescriptorShift, "bit_field3_number_of_own_descriptors_shift")
	need(d, &l.DetailsLocation, "prop_location_shift")
	need(d, &l.DetailsIndex, "prop_index_shift")

	need(d, &l.FunctionProperties, "class_JSReceiver__raw_properties_or_hash__")
	need(d, &l.FunctionShared, "class_JSFunction__shared__")
	need(d, &l.FunctionCode, "class_JSFunction__code__", "class_JSFunction__raw_code__")

	need(d, &l.SharedName, "class_SharedFunctionInfo__name_or_scope_info__")
	need(d, &l.SharedScript, "class_SharedFunctionInfo__script__", "class_SharedFunctionInfo__script_or_debug_info__")
	need(d, &l.SharedData, "class_SharedFunctionInfo__function_data__")
	need(d, &l.SharedFlags, "class_SharedFunctionInfo__flags__")
	need(d, &l.UncompiledName, "class_UncompiledData__inferred_name__")
	need(d, &l.UncompiledStart, "class_UncompiledData__start_position__")
	need(d, &l.UncompiledEnd, "class_UncompiledData__end_position__")

	need(d, &l.ScriptSource, "class_Script__source__")
	need(d, &l.ScriptName, "class_Script__name__")
	need(d, &l.ScriptType, "class_Script__type__")
	need(d, &l.ScopeLocals, "scopeinfo_idx_ncontextlocals")
	need(d, &l.ScopeFirst, "scopeinfo_idx_first_vars")
}

func (d *derivation) code(l *Layout) {
	need(d, &l.CodeStart, "class_Code__instruction_start__")
	need(d, &l.CodeSize, "class_Code__instruction_size__")
	need(d, &l.CodeFlags, "class_Code__flags__")
	need(d, &l.CodeKindMask, "CodeKindFieldMask")
	need(d, &l.KindBaseline, "CodeKindBaseline")
}

func (d *derivation) frames(l *Layout) {
	need(d, &l.FPContext, "off_fp_context_or_frame_type", "off_fp_context")
	need(d, &l.FPFunction, "off_fp_function")
	need(d, &l.FPBytecodeArray, "off_fp_bytecode_array")
	need(d, &l.FPBytecodeOffset, "off_fp_bytecode_offset")
	need(d, &l.FrameEntry, "frametype_EntryFrame")
	need(d, &l.FrameConstructEntry, "frametype_ConstructEntryFrame")
	need(d, &l.FrameExit, "frametype_ExitFrame")
	need(d, &l.FrameConstruct, "frametype_ConstructFrame")
	may(d, &l.FrameFastConstruct, "frametype_FastConstructFrame")
	need(d, &l.FrameInternal, "frametype_InternalFrame")
	need(d, &l.FrameStub, "frametype_StubFrame")
	need(d, &l.FrameBuiltin, "frametype_BuiltinFrame")
	need(d, &l.FrameBuiltinExit, "frametype_BuiltinExitFrame")
	may(d, &l.FrameAPICallbackExit, "frametype_ApiCallbackExitFrame")
	may(d, &l.FrameWasm, "frametype_WasmFrame")
	may(d, &l.WasmModuleObject, "type_WasmModuleObject__")
	may(d, &l.FrameRegExp, "frametype_IrregexpFrame")
	may(d, &l.RegExp, "type_IrRegExpData__", "type_JSRegExp__")
	may(d, &l.RegExpSource, "class_RegExpData__source__", "class_JSRegExp__source__")
}

// placeRegExp sets the slots of frames of regular expressions' machine code, of which the
// release has that of the last argument on x86-64.
func (l *Layout) placeRegExp(machine elf.Machine) {
	if machine != elf.EM_AARCH64 || l.RegExpArgument == 0 {
		return
	}
	// src/regexp/arm64/regexp-macro-assembler-arm64.h: registers have eight arguments, and not
	// six. The others are above the frame pointer, the link register and x19 to x28. The last
	// of the eight, x7, is saved below, and below the type and padding if frames have a type.
	const ninth, ninthOnX86, untypedEighth, typedEighth = 12 * wordSize, 4 * wordSize, -1 * wordSize, -3 * wordSize
	l.RegExpArgument += ninth - ninthOnX86
	isEighth := l.RegExpArgument-wordSize < ninth // the isolate
	switch {
	case isEighth && l.FrameRegExp == 0:
		l.RegExpIsolate = untypedEighth
	case isEighth:
		l.RegExpIsolate = typedEighth
	}
}
