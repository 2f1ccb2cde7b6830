// Waits below JSON.parse, and collects garbage before each further wait. Run
// with --expose-gc.
'use strict';
const fs = require('fs');
const input = Buffer.alloc(1);
const kept = Array.from({ length: 200_000 }, (_, i) => ({ i }));

function pause() {
  while (true) {
    fs.writeSync(1, 'ready\n');
    if (fs.readSync(0, input) === 0) return;
    gc();
  }
}

JSON.parse('{"a":1}', function reviver(key, value) {
  if (key === 'a') pause();
  return value;
});
process.exitCode = kept.length ? 0 : 1;
