// names.js [--milliseconds=N]: runs a function of each awkward kind in turn, for
// ever, each for N ms (20) under a wrapper of its own, kind_000 and so on.
//
// The ready line lists for each kind what V8 says of the function that calls
// spin: its name in a stack trace; its name in V8's own profiler, which looks at
// no property of the function; and where it is defined.
'use strict';

const inspector = require('inspector');
const path = require('path');
const vm = require('vm');
const truth = require('./lib/truth');
const { kinds } = require('./lib/kinds');
const { ready } = require('./lib/ready');

const state = { until: 0, seed: 1, observe: null };

// spin has no loop itself: V8's profiler does not know code that was optimized
// in the middle of a loop (OSR) before the profiler was started.
function spin() {
  if (state.observe) state.observe();
  burn();
  return 1;
}

function burn() {
  let x = state.seed;
  do {
    for (let i = 0; i < 100000; i++) {
      x ^= x << 13;
      x ^= x >>> 17;
      x ^= x << 5;
    }
  } while (Date.now() < state.until);
  state.seed = x;
}

// wrap gives call a frame of a name of its own below it.
function wrap(call, at) {
  const wrapper = `kind_${String(at).padStart(3, '0')}`;
  const text = `(call) => function ${wrapper}() { const value = call(); return [value]; }`;
  return { wrapper, run: new vm.Script(text, { filename: '/names/wrappers.js' }).runInThisContext()(call) };
}

async function moduleKinds() {
  const module = await import(path.join(__dirname, 'lib/module.mjs'));
  const other = await import(path.join(__dirname, 'lib/default.mjs'));
  return {
    'default export': () => module.default(spin),
    'default arrow export': () => other.default(spin),
    'exported arrow': () => module.arrow(spin),
    'exported async': () => { module.awaits(spin); },
    'method of an exported class': () => new module.Exported().method(spin),
  };
}

// describe returns what call sites and the debugger say of spin's caller.
function describe(observer, run) {
  let found;
  state.observe = () => {
    if (found) return;
    const definition = observer.definitions()[1];
    const call = truth.calls(spin)[0];
    found = { name: call.function, debugName: definition.name, file: call.file, line: definition.line, column: definition.column };
  };
  run();
  state.observe = null;
  return found;
}

// profile puts the names that V8's profiler gives to spin's callers into names, by wrapper.
function profile(session, list, names) {
  const call = (method, params) => {
    let result;
    session.post(method, params, (error, value) => { if (error) throw error; result = value; });
    return result;
  };
  call('Profiler.enable');
  call('Profiler.setSamplingInterval', { interval: 200 });
  call('Profiler.start');
  for (const { run } of list) spinFor(25, run);
  const { nodes } = call('Profiler.stop').profile;
  call('Profiler.disable');
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id])));
  const byId = new Map(nodes.map((node) => [node.id, node]));
  for (const node of nodes) {
    if (node.callFrame.functionName !== 'spin') continue;
    const caller = byId.get(parents.get(node.id));
    for (let up = caller; up; up = byId.get(parents.get(up.id))) {
      const name = up.callFrame.functionName;
      if (/^kind_\d+$/.test(name)) names.set(name, caller.callFrame.functionName);
    }
  }
}

const profileLimit = 120_000; // milliseconds; a second will do on a quiet machine

// profiled returns those names for all of list. On a busy machine the profiler
// may get no sample of some: it is run again for these.
function profiled(list) {
  const names = new Map();
  const session = new inspector.Session();
  session.connect();
  const deadline = Date.now() + profileLimit;
  for (let missing = list; missing.length > 0;) {
    if (Date.now() > deadline) throw new Error(`V8's profiler never saw ${missing.map((one) => one.kind)}`);
    profile(session, missing, names);
    missing = list.filter((one) => !names.has(one.wrapper));
  }
  session.disconnect();
  return names;
}

function spinFor(milliseconds, run) {
  state.until = Date.now() + milliseconds;
  run();
}

async function main() {
  const all = { ...kinds(spin), ...await moduleKinds() };
  const list = Object.entries(all).map(([kind, call], at) => ({ kind, ...wrap(call, at) }));
  const observer = new truth.Observer();
  const facts = list.map(({ kind, wrapper, run }) => ({ kind, wrapper, ...describe(observer, run) }));
  observer.close();
  const shared = profiled(list);
  facts.forEach((fact) => { fact.sharedName = shared.get(fact.wrapper); });
  ready({ pid: process.pid, kinds: facts });
  const given = process.argv.find((arg) => arg.startsWith('--milliseconds='));
  const each = given ? Number(given.slice('--milliseconds='.length)) : 20;
  for (;;) {
    for (const { run } of list) spinFor(each, run);
    await new Promise(setImmediate);
  }
}

main();
