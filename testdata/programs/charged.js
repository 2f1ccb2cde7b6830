// charged.js FORM: spends all of its time in one function until SIGTERM, for profilers to say
// which. "inlined": in the loop of inner, which TurboFan inlines into outer. "stub": in reader,
// for whose loads from objects of many shapes V8 calls a builtin without a frame.
'use strict';

const { ready } = require('./lib/ready');

function inner(n) {
  let sum = 0;
  for (let i = 0; i < n; i++) sum = (sum * 31 + i) | 0;
  return sum;
}

function outer(n) {
  let sum = 0;
  for (let i = 0; i < n; i++) sum += inner(500);
  return sum;
}

const shapes = Array.from({ length: 64 }, (_, i) => ({ [`only${i}`]: i, value: i }));

function reader(n) {
  let sum = 0;
  for (let i = 0; i < n; i++) {
    const shape = shapes[i & 63];
    sum += shape.value + shape.value + shape.value + shape.value + shape.value + shape.value + shape.value + shape.value;
  }
  return sum;
}

function caller(n) {
  return reader(n) + 1;
}

function inlined() {
  return outer(1e4);
}

function stub() {
  return caller(2e5);
}

const work = { inlined, stub }[process.argv[2]];

let ended = false;
process.once('SIGTERM', () => {
  ended = true;
});
for (let i = 0; i < 100; i++) work();
ready();
(function repeat() {
  for (let i = 0; i < 10; i++) work();
  if (ended) process.exit();
  setImmediate(repeat);
})();
