// Prints strings of every kind, each with its address; then waits. Run with
// --allow-natives-syntax --expose-gc --expose-externalize-string.
'use strict';
const fs = require('fs');

const long = 'a string of one byte a character, '.repeat(3);
const wide = 'строка из двух байтов 🚀, '.repeat(3);
const strings = {
  sequential: 'plain',
  wide: 'два байта €',
  cons: long + wide,
  nested: (long + 'x'.repeat(20)) + (wide + long),
  flattened: %FlattenString(long + 'tail'),
  sliced: %FlattenString(long + long).slice(7),
  slicedWide: %FlattenString(wide + wide).slice(3),
  latin: 'é\u0085ÿ'.repeat(20),
  huge: 'ab'.repeat(100_000),
};
const thin = 'thin' + process.pid + long;
({})[thin]; // a property's name is internalized: what was the string points to it
strings.thin = thin;

gc();
gc();
if (typeof externalizeString === 'function') {
  const texts = { external: 'e' + long, externalWide: 'ж' + wide, uncached: 'u' + process.pid };
  for (const [kind, text] of Object.entries(texts)) {
    const old = %FlattenString(text);
    gc();
    gc();
    try {
      externalizeString(old);
      strings[kind] = old;
    } catch {
      // This V8 cannot make such a string external.
    }
  }
}
for (const [kind, text] of Object.entries(strings)) {
  fs.writeSync(1, JSON.stringify({ kind, text, length: text.length }) + '\n');
  %DebugPrint(text);
}
fs.writeSync(1, 'ready\n');
fs.readSync(0, Buffer.alloc(1));
