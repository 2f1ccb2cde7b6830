// Evaluates each line of its input, or prints the object at an address, and then
// prints "ready". What is in keep stays alive.
'use strict';
const fs = require('fs');

globalThis.require = require;
globalThis.keep = [];

// What some releases have only in contexts that are made after these flags.
require('v8').setFlagsFromString('--harmony_rab_gsab');
require('v8').setFlagsFromString('--js_float16array');
keep.global = require('vm').runInNewContext('globalThis');

function serve() {
	const chunk = Buffer.alloc(1 << 16);
	let rest = '';
	for (let n; (n = fs.readSync(0, chunk)) > 0;) {
		rest += chunk.toString('utf8', 0, n);
		const end = rest.indexOf('\n');
		if (end < 0) continue;
		const line = rest.slice(0, end);
		rest = rest.slice(end + 1);
		try {
			const address = Number(line);
			if (address) %DebugPrintPtr(address);
			else (0, eval)(line);
		} catch (e) {
			fs.writeSync(1, `error: ${e}\n`);
		}
		fs.writeSync(1, '\nready\n');
	}
}

// Modules cannot be made between lines: they are linked by the event loop.
const sources = [0, 1, 2, 3].map((n) => `data:text/javascript,export let x = ${1000 * n}; let y = keep.inModule = () => y`);
Promise.all(sources.map((source) => import(source))).then((modules) => {
	keep.modules = modules;
	serve();
});
