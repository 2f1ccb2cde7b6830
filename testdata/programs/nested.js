// nested.js SCENARIO [--tier=TIER] [--rounds=N]: stops in nested known functions.
//
// Calls a chain of functions that ends in leaf, says on its ready line what V8
// says of the stack there, and spins in leaf. --list prints the scenarios;
// --each goes through them all, with a ready line for each; with --on-signal, it
// says ready before, and begins on SIGUSR2.
// TIER: with the flags of that tier, every function of the chain is compiled
// so. N: how long leaf spins, in units of about a microsecond; else for ever, or
// for so many milliseconds of CPU time, with --ms=N.
'use strict';

const EventEmitter = require('events');
const tier = require('./lib/tier');
const truth = require('./lib/truth');
const { ready, say } = require('./lib/ready');

const chain = new Set(); // functions to compile
const nothing = () => {};
const state = { rounds: 0, seed: 1, record: nothing };

// on adds f to the functions to compile and returns it.
function on(f) {
  chain.add(f);
  return f;
}

function leaf() {
  state.record();
  let x = state.seed;
  for (let n = state.rounds; n > 0; n--) {
    for (let i = 0; i < 1000; i++) {
      x ^= x << 13;
      x ^= x >>> 17;
      x ^= x << 5;
    }
  }
  state.seed = x;
  return x;
}
on(leaf);

function inner() { return leaf() + 1; }
function middle(a) { return inner(a) + 1; }
function outer(a, b) { return middle(a + b) + 1; }

class Base {
  constructor(n) { this.n = n; this.value = leaf() + n; }
}
class Derived extends Base {
  constructor(n) { super(n + 1); this.more = this.value; }
}
class Shape {
  area() { return this.scale() + 1; }
  scale() { return leaf() + 1; }
  get size() { return leaf() + 1; }
  set size(v) { this.kept = leaf() + v; }
  static make() { return new Shape().area() + 1; }
}
const arrow = () => leaf() + 1;
const arrowOuter = (a) => arrow(a) + 1;

function Legacy(n) { this.value = this.compute(n); }
Legacy.prototype.compute = function (n) { return leaf() + n; };

function recurse(n) { return n === 0 ? leaf() + 1 : recurse(n - 1) + 1; }
function even(n) { return n === 0 ? leaf() + 1 : odd(n - 1) + 1; }
function odd(n) { return n === 0 ? leaf() + 1 : even(n - 1) + 1; }

async function waits() { await null; return leaf() + 1; }
async function awaitsWaits() { return await waits() + 1; }
function* generates() { yield 1; yield leaf() + 1; }
function drains() { let sum = 0; for (const v of generates()) sum += v; return sum; }
async function* generatesLater() { yield 1; await null; yield leaf() + 1; }
async function drainsLater() { let sum = 0; for await (const v of generatesLater()) sum += v; return sum; }

function bound(a) { return leaf() + this.n + a; }
const tied = bound.bind({ n: 1 }, 2);
function applied(a) { return leaf() + a; }
const emitter = new EventEmitter();
emitter.on('go', function onGo(a) { return leaf() + a; });

function closes(n) {
  const add = on((x) => on(function within(y) { return leaf() + x + y + n; }));
  return add(1)(2);
}

const scenarios = {
  plain() { return outer(1, 2); },
  method() { return new Shape().area(); },
  static() { return Shape.make(); },
  getter() { return new Shape().size; },
  setter() { new Shape().size = 1; },
  arrow() { return arrowOuter(1); },
  constructor() { return new Derived(1).more; },
  legacy() { return new Legacy(1).value; },
  recursion() { return recurse(30); },
  mutual() { return even(31); },
  closure() { return closes(3); },
  iife() { return on(function named() { return on(() => leaf() + 1)() + 1; })(); },
  map() { return [1].map(on((v) => leaf() + v)); },
  forEach() { [1].forEach(on(function each(v) { leaf(v); })); },
  reduce() { return [1].reduce(on((sum, v) => sum + leaf() + v), 0); },
  sort() { return [2, 1].sort(on(function compare(a, b) { leaf(); return a - b; })); },
  replace() { return 'a'.replace(/a/, on(function replaced() { return `${leaf()}`; })); },
  reviver() { return JSON.parse('1', on(function revive(k, v) { leaf(); return v; })); },
  toJSON() { return JSON.stringify({ toJSON: on(function toText() { return leaf(); }) }); },
  apply() { return Reflect.apply(applied, null, [1]); },
  call() { return applied.call(null, 1); },
  bind() { return tied(); },
  construct() { return Reflect.construct(Derived, [1]).more; },
  proxy() { return new Proxy({}, { get: on(function trap() { return leaf(); }) }).any; },
  valueOf() { return 1 + { valueOf: on(function number() { return leaf(); }) }; },
  iterator() { return [...{ [Symbol.iterator]: on(function* items() { yield leaf(); }) }]; },
  emit() { return emitter.emit('go', 1); },
  generator() { return drains(); },
  async() { return awaitsWaits(); },
  asyncGenerator() { return drainsLater(); },
  then() { return Promise.resolve(1).then(on(function fulfilled(v) { return leaf() + v; })); },
  microtask() { return new Promise((done) => queueMicrotask(on(function task() { done(leaf()); }))); },
  evaluated() { return (0, eval)('(function fromEval(f) { return f() + 1; })')(leaf); },
};

const methods = (c) => Object.values(Object.getOwnPropertyDescriptors(c))
  .flatMap((d) => [d.value, d.get, d.set]).filter((f) => typeof f === 'function');

[inner, middle, outer, Base, Derived, ...methods(Shape.prototype), Shape.make, arrow, arrowOuter,
  Legacy, Legacy.prototype.compute, recurse, even, odd, waits, awaitsWaits, generates, drains,
  generatesLater, drainsLater, bound, applied, ...emitter.listeners('go')].forEach(on);

const measurable = 4000; // microseconds: long enough to tell the time of a round

// cpu returns the microseconds of CPU time that the process has used.
function cpu() {
  const { user, system } = process.cpuUsage();
  return user + system;
}

// The passes over a scenario. The first fills chain, the second asks the
// debugger, some make the functions warm, some may find out how long leaf takes,
// the last one says ready and spins.
// The leaf may be called more than once in a pass: its first call counts.
function passes(scenario, { rounds, milliseconds }) {
  const { before, after } = tier.force(tier.asked());
  let observer;
  let definitions;
  let said = false;
  function locate() {
    if (!definitions) definitions = observer.definitions();
  }
  function tell() {
    if (said) return;
    said = true;
    const calls = truth.join(truth.calls(tell), definitions);
    const words = tier.words(chain, __filename);
    for (const call of calls) {
      if (call.file === __filename && call.definition) {
        call.tier = words.get(`${call.definition.line}:${call.definition.column}`);
      }
    }
    ready({ pid: process.pid, scenario, calls });
  }
  const last = { record: tell, rounds };
  let began = 0;
  let fastest = Infinity; // microseconds for a round: what disturbs a measurement prolongs it
  let times = 3;
  const measure = {
    start() { began = cpu(); },
    rounds: 16,
    end() {
      const took = cpu() - began;
      if (took > measurable) {
        fastest = Math.min(fastest, took / measure.rounds);
        last.rounds = Math.ceil(milliseconds * 1000 / fastest);
        times--;
      } else {
        measure.rounds *= 4;
      }
      if (times > 0) list.unshift(measure);
    },
  };
  const list = [
    {},
    {
      start() { observer = new truth.Observer(); },
      record: locate,
      end() { observer.close(); chain.forEach(before); },
    },
    ...Array.from({ length: 200 }, (_, i) => ({ rounds: 1, record: i % 2 ? locate : nothing })),
    { start() { chain.forEach(after); }, rounds: 1 },
    ...(milliseconds ? [measure] : []),
    last,
  ];
  return list;
}

// run goes through the passes: at once while the scenario is done when it
// returns, else as its promises settle.
function run(scenario, list) {
  while (list.length > 0) {
    const pass = { start: nothing, record: nothing, end: nothing, rounds: 0, ...list.shift() };
    pass.start();
    Object.assign(state, { record: pass.record, rounds: pass.rounds });
    const result = scenario();
    if (result instanceof Promise) {
      return result.then(() => { pass.end(); return run(scenario, list); });
    }
    pass.end();
  }
  return undefined;
}

// each runs the scenarios one after the other.
function each(names, spin) {
  while (names.length > 0) {
    const name = names.shift();
    const done = run(on(scenarios[name]), passes(name, spin));
    if (done) return done.then(() => each(names, spin));
  }
  return undefined;
}

function main([name, ...flags]) {
  const names = Object.keys(scenarios);
  if (name === '--list') {
    names.forEach((one) => say(one));
    return;
  }
  if (name !== '--each' && !scenarios[name]) throw new Error(`no scenario ${name} (--list prints them)`);
  const number = (flag) => Number((flags.find((f) => f.startsWith(flag)) || '').slice(flag.length));
  const spin = { rounds: number('--rounds=') || 2 ** 31 - 1, milliseconds: number('--ms=') };
  const begin = () => each(name === '--each' ? names : [name], spin);
  if (!flags.includes('--on-signal')) {
    begin();
    return;
  }
  const waiting = setInterval(nothing, 2 ** 30); // keeps the program from ending
  process.once('SIGUSR2', () => {
    clearInterval(waiting);
    begin();
  });
  ready();
}

main(process.argv.slice(2));
