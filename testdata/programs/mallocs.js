'use strict';
// mallocs.js ADDON: on SIGUSR2, calls four functions whose native code asks malloc for memory, then
// prints how many bytes in each, by the add-on's count. It is preloaded.

const { createHash } = require('crypto');
const { deflateSync } = require('zlib');
const { ready, say } = require('./lib/ready');
const { counted, take } = require(process.argv[2]);

const data = Buffer.alloc(1000, 'some text');
const functions = {
  takes() { take(1 + Math.floor(10000 * Math.random())); },
  hashes() { createHash('sha256').update(data).digest('hex'); },
  packs() { deflateSync(data); },
  parses() { new URL(`http://example.org/${Math.random()}?a=b#c`).searchParams.get('a'); },
};

// bytesOf returns what malloc is asked for by calls of f, and not by the compiler in between.
function bytesOf(f, calls) {
  let bytes = 0;
  for (let i = 0; i < calls; i++) {
    const before = counted();
    f();
    bytes += counted() - before;
  }
  return bytes;
}

for (const name in functions) bytesOf(functions[name], 1009); // so that all of it is compiled
process.on('SIGUSR2', () => {
  const bytes = {};
  for (const name in functions) bytes[name] = bytesOf(functions[name], 1009);
  say('done', bytes);
});
setInterval(() => {}, 1e9);
ready();
