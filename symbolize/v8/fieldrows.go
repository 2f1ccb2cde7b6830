package v8

// noField says that a version has no such field.
const noField = 1<<16 - 1

// fieldRows has the offsets in bytes of fields that metadata omits, in some
// version or in all, by "class.field": one for every line of rows alike, or one
// for each. Measured in live objects of the official binaries.
var fieldRows = map[string][]uint16{
	"JSArray.length":           {24},
	"JSPrimitiveWrapper.value": {24},
	"JSDate.value":             {24}, // up to V8 12.4 a HeapNumber, from then on the number itself
	"JSRegExp.data":            {24},
	"JSRegExp.source":          {32},
	"JSRegExp.flags":           {40},
	"JSWeakRef.target":         {24},

	"Symbol.flags":       {12},
	"Symbol.description": {16},
	"BigInt.bitfield":    {8},
	"BigInt.digits":      {16},

	"JSMap.table":            {24},
	"JSSet.table":            {24},
	"JSWeakCollection.table": {24},

	"PropertyCell.name":                    {8},
	"PropertyCell.property_details_raw":    {16},
	"PropertyCell.value":                   {24},
	"Cell.value":                           {8},
	"AccessorPair.getter":                  {8},
	"AccessorPair.setter":                  {16},
	"WeakCell.finalization_registry":       {8},
	"WeakCell.target":                      {16, 16, 16, 16, 16, 16, 24},
	"WeakCell.unregister_token":            {24, 24, 24, 24, 24, 24, 32},
	"WeakCell.holdings":                    {32, 32, 32, 32, 32, 32, 16},
	"JSFinalizationRegistry.cleanup":       {32},
	"JSFinalizationRegistry.active_cells":  {40},
	"JSFinalizationRegistry.cleared_cells": {48},
	"AsyncGeneratorRequest.next":           {8},

	"JSPromise.reactions_or_result":         {24},
	"JSPromise.flags":                       {32},
	"PromiseReaction.next":                  {8, 8, 8, 16, 16, 16, 16},
	"PromiseReaction.reject_handler":        {16, 16, 16, 24, 24, 24, 24},
	"PromiseReaction.fulfill_handler":       {24, 24, 24, 32, 32, 32, 32},
	"PromiseReaction.promise_or_capability": {32, 32, 32, 40, 40, 40, 40},
	"PromiseCapability.promise":             {8},

	"JSProxy.target":                        {16},
	"JSProxy.handler":                       {24},
	"JSBoundFunction.bound_target_function": {24},
	"JSBoundFunction.bound_this":            {32},
	"JSBoundFunction.bound_arguments":       {40},

	"JSGeneratorObject.function":                 {24},
	"JSGeneratorObject.context":                  {32},
	"JSGeneratorObject.receiver":                 {40},
	"JSGeneratorObject.input_or_debug_pos":       {48},
	"JSGeneratorObject.resume_mode":              {56},
	"JSGeneratorObject.continuation":             {64},
	"JSGeneratorObject.parameters_and_registers": {72},
	"JSAsyncFunctionObject.promise":              {80},
	"JSAsyncGeneratorObject.queue":               {80},
	"JSAsyncGeneratorObject.is_awaiting":         {88},
	"AsyncGeneratorRequest.promise":              {32},

	"JSFunction.prototype_or_initial_map": {56},
	"ClassPositions.start":                {8},
	"ClassPositions.end":                  {16},

	"JSArrayBuffer.max_byte_length":             {32, 32, 40, 40, 48, 48, 48},
	"JSArrayBuffer.extension":                   {48, 48, 56, 56, 64, 64, 64},
	"JSArrayBuffer.bit_field":                   {56, 56, 64, 64, 72, 72, 72},
	"ArrayBufferExtension.backing":              {8, 8, 8, 8, 0, 0, 0},
	"BackingStore.byte_length":                  {8},
	"JSArrayBufferView.buffer":                  {24, 24, 24, 24, 32, 32, 32},
	"JSArrayBufferView.byte_offset":             {32, 32, 32, 32, 48, 48, 48},
	"JSArrayBufferView.byte_length":             {40, 40, 40, 40, 56, 56, 56},
	"JSArrayBufferView.bit_field":               {noField, 48, 48, 48, 40, 40, 40},
	"JSModuleNamespace.module":                  {24, 24, 24, 24, 32, 32, 32},
	"Module.exports":                            {8},
	"BytecodeArray.data":                        {54, 56, 54, 64, 64, 64, 64},
	"BytecodeArray.source_position_table":       {32, 32, 32, 24, 24, 24, 24},
	"BytecodeWrapper.bytecode":                  {8},
	"Code.bytecode_or_interpreter_data":         {noField, 16, 16, 8, 8, 8, 8},
	"BaselineData.bytecode_or_interpreter_data": {16, noField, noField, noField, noField, noField, noField},
	"InterpreterData.bytecode_array":            {8},
	"ErrorStackData.formatted":                  {8}, // call_site_infos_or_formatted_stack
	"CallSiteInfo.receiver_or_instance":         {8, 8, 8, 16, 16, 16, 16},
	"CallSiteInfo.function":                     {16, 16, 16, 24, 24, 24, 24},
	"CallSiteInfo.code_object":                  {24, 24, 24, 8, 8, 8, 8},
	"CallSiteInfo.code_offset":                  {32},
	"CallSiteInfo.flags":                        {40},
}

// fieldRow returns where in an object of a class a field is that metadata omits.
func fieldRow(v Version, class, field string) (offset int, ok bool) {
	offsets, i := fieldRows[class+"."+field], versionIndex(v)
	if i < 0 || len(offsets) == 0 {
		return 0, false
	}
	if len(offsets) == 1 {
		i = 0
	}
	if offsets[i] == noField {
		return 0, false
	}
	return int(offsets[i]), true
}
