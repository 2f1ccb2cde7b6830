// gcstress.js [GENERATIONS]: makes functions, runs them for a moment and drops
// them, for ever or for a number of generations.
//
// Generation g defines g<g>_0 to g<g>_11 in a script of its own, /gen/g<g>.js,
// and calls them nested. A stack is right only if all their frames are of one g,
// in sequence, and of its script. Run it with --max-semi-space-size=1 to have
// the collector move them most often.
'use strict';

const vm = require('vm');
const { ready } = require('./lib/ready');

const depth = 12;
const kept = []; // generations that live a little longer, so that old space fills too

function source(g) {
  const lines = [];
  for (let i = 0; i < depth - 1; i++) {
    lines.push(`function g${g}_${i}(n) { const o = { n, i: ${i} }; return g${g}_${i + 1}(o.n) + o.i; }`);
  }
  lines.push(`function g${g}_${depth - 1}(n) {
  let x = n;
  for (let i = 0; i < 3000; i++) { x ^= x << 13; x ^= x >>> 17; x ^= x << 5; }
  return x;
}`);
  return `(function () {\n${lines.join('\n')}\nreturn g${g}_0;\n})()`;
}

function generation(g) {
  const first = new vm.Script(source(g), { filename: `/gen/g${g}.js` }).runInThisContext();
  let sum = 0;
  for (let i = 0; i < 20; i++) sum += first(i + 1);
  const small = Array.from({ length: 200 }, (_, i) => () => sum + i);
  if (g % 8 === 0) kept.push(first, small);
  if (kept.length > 64) kept.splice(0, 32);
  return small[g % 200]();
}

const generations = Number(process.argv[2] || Infinity);
ready({ pid: process.pid, depth });
for (let g = 0; g < generations; g++) generation(g);
