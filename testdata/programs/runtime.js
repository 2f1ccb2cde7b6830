// runtime.js: makes V8 collect, parse, compile, optimize, deoptimize and
// execute a regular expression, each in a function of its own. On SIGUSR2 it prints
// which share of its CPU time, in percent, each function took since the last time, and
// which share of the time collections took, by what perf_hooks says.
// Needs --allow-natives-syntax and --expose-gc.
'use strict';

const { PerformanceObserver, constants, performance } = require('perf_hooks');
const { ready, say } = require('./lib/ready');

let serial = 0; // V8 keeps the code of sources that it has compiled

// unique returns a source that V8 has not seen.
const unique = (source) => `/* ${serial++} */ ${source}`;

const statements = (count) => Array.from({ length: count }, (_, i) => `x = (x * ${i + 3} + y.p${i}) | 0;`).join('\n');
const lines = statements(3000);
const inner = `return 1; function never(x, y) { ${lines} }`;

// Each function takes some milliseconds. Were they always the same, they could keep pace with
// the timer of a profiler.

let young;
function make(_, i) { return { i, next: { i } }; }
%NeverOptimizeFunction(make); // optimizations are those of optimize and prepare
function allocate() {
  young = Array.from({ length: 5000 + 10000 * Math.random() }, make);
}
function scavenge() { gc({ type: 'minor' }); }

const old = Array.from({ length: 100000 }, (_, i) => ({ i, text: [i] }));
function markCompact() { gc(); }

const text = 'a'.repeat(1500) + 'c';
const pattern = /(?:x|[^b(])*?d/u;
function regexp() { for (let i = 0; i < 4; i++) pattern.test(text); }

function parse() { return new Function(unique(inner)); }

const values = Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`p${i}`, i]));
function compile() { new Function('x', 'y', unique(lines))(1, values); }

const hot = new Function('x', 'y', `${statements(60)} return x;`);
function optimize() {
  %PrepareFunctionForOptimization(hot);
  hot(1, values);
  %OptimizeFunctionOnNextCall(hot);
  hot(1, values);
  %DeoptimizeFunction(hot);
}

// deoptimize returns to frames of code that is invalid: each becomes a frame of the
// interpreter's.
function down(n, then) { return n === 0 ? then() : 1 + down(n - 1, then); }
function deoptimize() {
  down(200, () => { %DeoptimizeFunction(down); return 0; });
}
function prepare() {
  const nothing = () => 0;
  %PrepareFunctionForOptimization(down);
  down(10, nothing);
  %OptimizeFunctionOnNextCall(down);
  down(10, nothing);
}

function spin() {
  let x = 1;
  for (let i = 0; i < 2e6; i++) x = (x * 31 + i) | 0;
  return x;
}

const kinds = { [constants.NODE_PERFORMANCE_GC_MINOR]: 'GC scavenge', [constants.NODE_PERFORMANCE_GC_MAJOR]: 'GC mark-compact' };
const works = [
  ...Array(20).fill([allocate, scavenge]).flat(), markCompact, regexp, parse, compile, optimize,
  ...Array(10).fill([prepare, deoptimize]).flat(), spin,
];

// What was spent since the last time, in microseconds: CPU time by function, and time
// by kind of collection.
const spent = {};
const collected = {};
let since;

function start() {
  for (const { name } of works) spent[name] = 0;
  for (const name of Object.values(kinds)) collected[name] = 0;
  since = { cpu: cpu(), time: performance.now() };
}

function report() {
  const shares = {};
  const [cpuTime, time] = [cpu() - since.cpu, performance.now() - since.time];
  for (const [name, value] of Object.entries(spent)) shares[name] = 100 * value / cpuTime;
  for (const [name, value] of Object.entries(collected)) shares[name] = 100 * value / time;
  say('shares', shares);
}

function cpu() {
  const { user, system } = process.cpuUsage();
  return user + system;
}

function run(f) {
  const before = cpu();
  f();
  spent[f.name] += cpu() - before;
}

new PerformanceObserver((list) => {
  for (const { detail, duration } of list.getEntries()) collected[kinds[detail.kind]] += duration;
}).observe({ entryTypes: ['gc'] });

process.on('SIGUSR2', () => {
  report();
  start();
});

async function main() {
  ready({ pid: process.pid });
  start();
  for (;;) {
    for (const work of works) run(work);
    await new Promise(setImmediate);
  }
}

main();
