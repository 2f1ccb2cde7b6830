/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Which script a WebAssembly frame belongs to: its name is the module's URL, which V8 keeps nowhere
 * else. The frame holds its instance: instance -> WasmModuleObject -> Script.
 */
#ifndef USTACK_WASM_H
#define USTACK_WASM_H

#include "v8_name.h"

#define MAX_INSTANCES 4096
#define MODULE_OBJECT_BYTES 64

struct instance_key {
	u64 owner;
	u64 instance;
};

/* Instances that were sent to user space, by address, with the epoch of that time. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_INSTANCES);
	__type(key, struct instance_key);
	__type(value, u64);
} instances SEC(".maps");

/* Reads the tagged field of an object into *object; false if either is none. */
static __always_inline bool follow(u64 *object, u32 offset)
{
	return is_heap_object(*object) && read_user(object, 8, *object - 1 + offset) &&
	    is_heap_object(*object);
}

/* The Script of an instance's module, read into w->script; 0 if it cannot be read. */
static __always_inline u64 instance_script(struct walk *w, u64 object)
{
	const struct layout *l = &w->process.layout;
	u64 script;

	if (l->wasm_instance && !follow(&object, l->wasm_instance))
		return 0;
	if (!follow(&object, l->wasm_module))
		return 0;
	if (read_object(w, &object, w->object, MODULE_OBJECT_BYTES) != l->wasm_module_object)
		return 0;
	script = field(w->object, l->wasm_script);
	return read_object(w, &script, w->script, SCRIPT_BYTES) == l->script ? script : 0;
}

/* Sends the script of the current wasm frame to user space, unless it was sent already. */
__noinline int note_wasm(struct walk *w, u64 instance)
{
	struct instance_key key = { .instance = instance };
	struct wasm wasm = { .event = EVENT_WASM };
	const struct layout *l;
	u64 script, epoch, *seen;

	if (!w)
		return 0;
	l = &w->process.layout;
	epoch = w->epoch;
	if (!l->wasm_module || (l->gc_count && !epoch)) /* objects may be moving */
		return 0;
	key.owner = w->owner;
	seen = bpf_map_lookup_elem(&instances, &key);
	if (seen && *seen == epoch)
		return 0;
	script = instance_script(w, instance);
	if (!script) {
		count_failure(FAILURE_WASM);
		return 0;
	}
	w->last_script = 0; /* w->script is another's now */
	w->name.script = smi_value(field(w->script, l->script_id));
	wasm.script = w->name.script;
	wasm.owner = w->owner;
	wasm.pc = w->pc;
	w->head_of = 0;
	send_script(w, script);
	if (send(&wasm, sizeof(wasm), true))
		bpf_map_update_elem(&instances, &key, &epoch, BPF_ANY);
	return 0;
}

#endif
