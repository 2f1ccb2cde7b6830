'use strict';
// mallocs.js ADDON: on SIGUSR2, calls four functions whose native code asks malloc for memory, then
// prints how many bytes in each, by the add-on's count. It is preloaded.

const { createHash } = require('crypto');
const v8 = require('v8');
const { deflateSync } = require('zlib');
const { ready, say } = require('./lib/ready');
const { counted, take } = require(process.argv[2]);

// The compiler asks malloc for memory as well.
for (const flag of ['--no-opt', '--no-maglev', '--no-sparkplug']) v8.setFlagsFromString(flag);

const data = Buffer.alloc(1000, 'some text');
const functions = {
  takes() { take(1 + Math.floor(10000 * Math.random())); },
  hashes() { createHash('sha256').update(data).digest('hex'); },
  packs() { deflateSync(data); },
  parses() { new URL(`http://example.org/${Math.random()}?a=b#c`).searchParams.get('a'); },
};

// bytesOf returns what malloc is asked for by calls of f.
function bytesOf(f, calls) {
  const before = counted();
  for (let i = 0; i < calls; i++) f();
  return counted() - before;
}

for (const name in functions) bytesOf(functions[name], 1009); // so that all of it is loaded
process.on('SIGUSR2', () => {
  const bytes = {};
  for (const name in functions) bytes[name] = bytesOf(functions[name], 1009);
  say('done', bytes);
});
setInterval(() => {}, 1e9);
ready();
