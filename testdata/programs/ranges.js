// ranges.js [GENERATIONS]: runs functions whose lines are known by their names, and
// replaces them with new ones, forever or for a number of generations.
//
// In the script /ranges/g<g>.js the function f<g>_<i> has the ten lines from 10*i+1,
// and calls f<g>_<i+1> on line 10*i+6. Some generations live long enough for V8 to
// optimize them, some of those are given values of another type, so that they are
// deoptimized. Run it with flags that make V8 collect and compile most often.
'use strict';

const vm = require('vm');
const { ready } = require('./lib/ready');

const depth = 8;
const kept = []; // generations that live longer

// source returns a script. Line 1 belongs to f_0, too: offsets of lines are the
// script's.
function source(g) {
  const lines = [];
  for (let i = 0; i < depth; i++) {
    const next = i + 1 < depth ? `f${g}_${i + 1}(box.n)` : 'n';
    lines.push(
      `${i === 0 ? '(function () {' : ''}function f${g}_${i}(n) {`,
      `  const box = { n, i: ${i} };`,
      '  let x = n;',
      '  for (let k = 0; k < 30; k++) x ^= x << 5;',
      '  const before = [x, box];',
      `  const sum = ${next};`,
      '  const after = { sum, before };',
      '  for (let k = 0; k < 30; k++) x ^= x << 7;',
      '  return after.sum + x + before.length;',
      '}',
    );
  }
  return `${lines.join('\n')}\nreturn f${g}_0; })()`;
}

function generation(g) {
  const first = new vm.Script(source(g), { filename: `/ranges/g${g}.js` }).runInThisContext();
  let sum = 0;
  for (let i = 0; i < (g % 4 === 0 ? 2000 : 50); i++) sum += first(i);
  if (g % 8 === 0) { // not the type that it was optimized for
    for (let i = 0; i < 500; i++) sum += first(i + 0.5);
    kept.push(first);
  }
  for (const f of kept) sum += f(g);
  if (kept.length > 16) kept.splice(0, 8);
  return sum;
}

const generations = Number(process.argv[2] || Infinity);
ready({ pid: process.pid, depth });
for (let g = 0; g < generations; g++) generation(g);
