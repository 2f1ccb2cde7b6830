// count.js, loaded before a program (-r): at SIGUSR2, it says how many objects V8 counts of some of
// the program's classes, by their names (v8.queryObjects), and keeps the heap as it is then.
'use strict';

const v8 = require('v8');
const { builtinModules } = require('module');
const { say } = require('../programs/lib/ready');

const MAX_COUNTS = 40; // each collects garbage
const MAX_DEPTH = 4;

// Counting makes objects of these; that a class is Iterator, an accessor says (V8 12.4).
const UNCOUNTED = ['Object', 'Function', 'Array', 'Iterator'];

// classesOf returns the classes that are properties of the values, by name; undefined for a name
// that several have.
function classesOf(values) {
  const seen = new Set();
  const classes = new Map();
  const visit = (value, depth) => {
    if (Object(value) !== value || seen.has(value) || depth > MAX_DEPTH) return;
    seen.add(value);
    const own = Object.getOwnPropertyDescriptors(value);
    if (typeof value === 'function' && value.name && Object(own.prototype?.value) === own.prototype?.value) {
      classes.set(value.name, classes.has(value.name) ? undefined : value);
    }
    for (const { value: property } of Object.values(own)) visit(property, depth + 1);
  };
  values.forEach((value) => visit(value, 0));
  return classes;
}

process.once('SIGUSR2', () => {
  const builtins = builtinModules.filter((name) => !/^(_|sys$|punycode|wasi|trace_events|inspector)/.test(name));
  const forever = new Int32Array(new SharedArrayBuffer(4));
  const exports = [...Object.values(require.cache).map((module) => module.exports), ...builtins.map((name) => require(name)), globalThis];
  const classes = [...classesOf(exports)].filter(([name, Class]) => Class && !UNCOUNTED.includes(name));
  const usual = classes.filter(([name]) => ['Map', 'Set', 'Promise', 'Error', 'RegExp', 'EventEmitter', 'Buffer', 'Module'].includes(name));
  const step = Math.ceil(classes.length / MAX_COUNTS);
  const counts = {};
  for (const [name, Class] of new Map([...usual, ...classes.filter((_, i) => i % step === 0)])) {
    counts[name] = v8.queryObjects(Class, { format: 'count' });
  }
  say('counts', counts);
  Atomics.wait(forever, 0, 0);
});
