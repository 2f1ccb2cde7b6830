// postmortem_stack.js [--tier=TIER] [--async] [--worker]: waits for ever in a
// chain of calls of every kind, for a core to be taken.
//
// Its ready line has the calls below the innermost one, leaf first, as V8's own
// stack trace has them, and what each function of the chain was given. With the
// flags of TIER the functions of the chain are compiled so. --async: the chain
// begins in a function that has awaited. --worker: it is in a worker thread.
'use strict';

const EventEmitter = require('events');
const { Worker, isMainThread } = require('worker_threads');
const tier = require('./lib/tier');
const truth = require('./lib/truth');
const { ready } = require('./lib/ready');

const state = { act: (a) => a, sink: 0 };
const given = {}; // arguments by function, in words
const receivers = {}; // classes by function
const chain = [];

// word says what a value is, as the test does.
function word(value) {
  if (typeof value === 'function') return `function ${value.name}`;
  if (typeof value === 'object' && value !== null) return value.constructor.name;
  return String(value);
}

// on adds f to the chain, with the arguments that it will be given and the class
// of its receiver.
function on(f, args, receiver) {
  chain.push(f);
  given[f.name] = args.map(word);
  if (receiver) receivers[f.name] = receiver;
  return f;
}

function wait() {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

// adds and subtracts take turns, so that no compiler expects either.
const adds = (a) => { state.sink += a; return state.sink; };
const subtracts = (a) => { state.sink -= a; return state.sink; };

function tells() {
  ready({ pid: process.pid, calls: truth.calls(leaf), given, receivers });
  wait();
}

function leaf(a) { return state.act(a); }
on(leaf, [1]);

function small() { return leaf(1) + 1; }
on(small, []);
function middle(text) { return small() + text.length; }
on(middle, ['text']);
function nested(flag) { return middle('text') + (flag ? 1 : 0); }
on(nested, [true]);

const options = { deep: 1 };
function fewer(a, b, c) { return nested(true) + (b === c ? a : 0); }
on(fewer, [7]);
function more(a) { return fewer(7) + a; }
on(more, [1, -2, 3.25, 'four', null, undefined, options]);

class Base {
  constructor(n) { this.n = n; this.value = more(1, -2, 3.25, 'four', null, undefined, options) + n; }
}
on(Base, ['base']);
class Derived extends Base {
  constructor(n, m) { super('base'); this.more = n + m; }
}
on(Derived, [5, 6]);

class Shape {
  constructor() { this.side = 2; }
  get area() { return new Derived(5, 6).more; }
  scale(by) { return this.area * by; }
  static make(name) { return new Shape().scale(3) + name; }
}
const areaOf = Object.getOwnPropertyDescriptor(Shape.prototype, 'area').get;
on(areaOf, [], 'Shape');
on(Shape.prototype.scale, [3], 'Shape');
on(Shape.make, ['made'], 'function Shape');

const pair = [2, 1];
const arrow = (value, index, all) => Shape.make('made') + value + index + all.length;
on(arrow, [2, 0, pair]);
function maps(list) { return list.map(arrow).length; }
on(maps, [pair]);
function compares(a, b) { maps(pair); return a - b; }
on(compares, [1, 2]);
function sorts() { return [2, 1].sort(compares)[0]; }
on(sorts, []);

const evaluated = (0, eval)(`
  (function evaluated(next) {
    return next() + 1;
  })`);
on(evaluated, [sorts]);
function* yields(n) { yield n; yield evaluated(sorts) + n; }
on(yields, [4]);
function drains() { let sum = 0; for (const v of yields(4)) sum += v; return sum; }
on(drains, []);

const emitter = new EventEmitter();
function listens(event) { return drains() + event.length; }
on(listens, ['event'], 'EventEmitter');
emitter.on('go', listens);
function emits() { return emitter.emit('go', 'event'); }
on(emits, []);
function bound(a, b) { return emits() + a + b + this.n; }
const tied = bound.bind({ n: 1 }, 8);
on(bound, [8, 9], 'Object');
function begins() { return tied(9); }
on(begins, []);
async function awaits(seconds) { await null; return begins() + seconds; }
on(awaits, [10]);

async function later(n) { return await awaits(10) + n; }
async function* steps() { yield await later(1); }
async function walks() { for await (const step of steps()) return step; return 0; }
class Task {
  async work() { return (await Promise.all([null, walks()])).length; }
}
function followed() { return new Task().work().then((n) => n + 1); }
async function latest() { const n = await followed(); return n; }

const asynchronous = process.argv.includes('--async');
const pass = () => (asynchronous ? latest() : begins());

async function run() {
  const { before, after } = tier.force(tier.asked());
  await pass();
  chain.forEach(before);
  for (let i = 0; i < 200; i++) {
    state.act = i % 2 ? adds : subtracts;
    await pass();
  }
  chain.forEach(after);
  await pass();
  state.act = tells;
  await pass();
}

if (process.argv.includes('--worker') && isMainThread) {
  new Worker(__filename, { argv: process.argv.slice(2) });
} else {
  run();
}
