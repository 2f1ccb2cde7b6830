// heap.js MB [SECRET]: the ticking timer of ticks.js in a process whose heap has
// grown to some MB of small objects. SECRET is kept as a string on the heap,
// reversed, and in a Buffer as it is.
'use strict';

const megabytes = Number(process.argv[2] || 100);
const secret = process.argv[3] || '';
const objectSize = 64; // bytes of an element and what it points to, about

const kept = [];
for (let part = 0; part < megabytes; part++) {
  const objects = [];
  for (let i = 0; i < (1 << 20) / objectSize; i++) objects.push({ part, i, half: i / 2 });
  kept.push(objects);
}
// Copies that are flat, and not the literal that the command line has too.
global.kept = {
  kept,
  string: Buffer.from([...secret].reverse().join('')).toString('latin1'),
  buffer: Buffer.from(secret),
};
require('./ticks');
