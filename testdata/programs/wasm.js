// wasm.js FORM: spends its CPU time in WebAssembly functions, in known shares.
//
// Three functions get 50, 30 and 20 % of a number of equal units of work; FORM
// says what modules they are in and how they are called (--list). The ready line
// says what V8 calls each of them, by a stack trace that an imported function of
// JavaScript takes. The form "nested" spins in one function instead, deep in
// calls between modules and JavaScript, and says what V8 has on the stack.
'use strict';

const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { assemble, worker, spins, local, set, i32, call, callIndirect, types } = require('./lib/wasmbytes');
const { ready, say } = require('./lib/ready');

const percents = [50, 30, 20];
const order = [0, 1, 0, 2, 0, 1, 0, 2, 0, 1]; // 5, 3 and 2 of 10
const names = ['half', 'third', 'fifth'];
const unitMicroseconds = 200;
const endless = 0x7fffffff;
const forever = (code) => [0x03, 0x40, ...code, 0x0c, 0, 0x0b]; // loop code br 0 end

let rounds = 10000; // of spins in a unit
let trace = []; // what V8 last said of the stack

Error.stackTraceLimit = Infinity;

// observe is what all functions call when their argument is 0.
function observe() {
  const format = Error.prepareStackTrace;
  Error.prepareStackTrace = (_, sites) => sites;
  const sites = new Error().stack;
  Error.prepareStackTrace = format;
  trace = sites.slice(1).map((site) => {
    const wasm = /(wasm:\/\/[^:]*):wasm-function\[(\d+)\]/.exec(String(site));
    return wasm
      ? { name: site.getFunctionName() || `wasm-function[${wasm[2]}]`, file: wasm[1], wasm: true }
      : { name: site.getFunctionName() || '', file: site.getFileName() || '', wasm: false };
  });
}

const js = { observe };
const all = (code) => Object.fromEntries(names.map((name) => [name, worker(code)]));
const instantiate = (module, more = {}) => new WebAssembly.Instance(module, { js: { ...js, ...more } }).exports;
const build = (parts, more) => instantiate(new WebAssembly.Module(assemble(parts)), more);
const exported = (exports) => names.map((name) => exports[name]);

// spinJS is what spins is, in JavaScript.
function spinJS(n) {
  let x = 1;
  for (; n > 0; n--) { x ^= x << 13; x ^= x >>> 17; x ^= x << 5; }
  return x;
}

// Each form returns, or promises, three functions that do a unit of work, or one
// that does all of it for ever.
const forms = {
  named: () => exported(build({ name: 'alpha', functions: all(spins) })),
  nameless: () => exported(build({ functions: all(spins) })),
  unnamed: () => exported(build({ naming: false, functions: all(spins) })),
  modules: () => names.map((name, i) => build({
    name: name.repeat(i + 1), naming: i < 2, functions: { work: worker(spins) },
  }).work),
  // Direct and indirect calls, and one into another module.
  calls() {
    const imports = ['observe', 'other'];
    const functions = {
      helper: worker(spins),
      half: worker([...local(0), ...call(2), ...set(1)]),
      third: worker([...local(0), ...i32(0), ...callIndirect(types.work), ...set(1)]),
      fifth: worker([...local(0), ...call(1), ...set(1)]),
    };
    const other = build({ name: 'other', functions: { helper: worker(spins) } }).helper;
    return exported(build({ name: 'caller', imports, functions }, { other }));
  },
  // The work is done in JavaScript that they call.
  imports() {
    const back = (n) => { if (n === 0) observe(); return spinJS(n); };
    const functions = all([...local(0), ...call(1), ...set(1)]);
    return exported(build({ name: 'importer', imports: ['observe', 'back'], functions }, { back }));
  },
  async compiled() {
    const module = await WebAssembly.compile(assemble({ name: 'compiled', functions: all(spins) }));
    return exported(instantiate(module));
  },
  async streamed() {
    if (typeof Response === 'undefined' || !WebAssembly.compileStreaming) return forms.compiled();
    const headers = { 'content-type': 'application/wasm' };
    const response = new Response(assemble({ name: 'streamed', functions: all(spins) }), { headers });
    return exported(instantiate(await WebAssembly.compileStreaming(response)));
  },
  // Thousands of functions, the three far apart.
  big() {
    const functions = {};
    for (let i = 0; i < 6000; i++) {
      const at = [17, 3000, 5990].indexOf(i);
      functions[at < 0 ? `function_${i}` : names[at]] = worker(spins);
    }
    return exported(build({ name: 'big', functions }));
  },
  // One call that never returns: its code is replaced and runs on.
  driver() {
    const unit = (i) => [...local(0), ...call(1 + i), ...set(1)];
    const functions = { ...all(spins), driver: worker(forever(order.flatMap(unit))) };
    const exports = build({ name: 'driven', functions });
    return [...exported(exports), exports.driver];
  },
};

function measure(work) {
  const tries = 20;
  const before = process.hrtime.bigint();
  for (let i = 0; i < tries; i++) work(rounds);
  return Number(process.hrtime.bigint() - before) / 1000 / tries;
}

// warm calls functions until V8 has compiled their best code.
function warm(works) {
  for (const work of works) for (let i = 0; i < 500; i++) work(100);
}

// calibrate makes a unit last as long as it should.
function calibrate(work) {
  for (let pass = 0; pass < 8; pass++) {
    rounds = Math.max(1, Math.round(rounds * unitMicroseconds / measure(work)));
  }
}

// level waits until all works take the same time: V8 compiles each of them again, and
// under load some much later than others.
function level(works) {
  const quickest = (work) => Math.min(...Array.from({ length: 10 }, () => {
    const before = process.hrtime.bigint();
    work(rounds);
    return Number(process.hrtime.bigint() - before);
  }));
  for (let pass = 0; pass < 500; pass++) {
    const times = works.map(quickest);
    if (Math.max(...times) < 1.03 * Math.min(...times)) return;
  }
  throw new Error('functions with the same code do not take the same time');
}

// identify returns what V8 calls the WebAssembly functions on the stack of work,
// the outermost.
function identify(work) {
  work(0);
  const { name, file } = trace.filter((frame) => frame.wasm).pop();
  return { name, file };
}

async function share(form) {
  const [half, third, fifth, driver] = await forms[form]();
  const works = [half, third, fifth];
  warm(works);
  calibrate(half);
  level(works);
  const functions = works.map((work, i) => ({ ...identify(work), percent: percents[i] }));
  ready({ pid: process.pid, functions });
  if (driver) driver(rounds);
  for (;;) {
    for (const i of order) works[i](rounds);
    await new Promise(setImmediate);
  }
}

// share has the same module run in two workers.
function shareWorkers() {
  const module = new WebAssembly.Module(assemble({ name: 'shared', functions: all(spins) }));
  let up = 0;
  for (let i = 0; i < 2; i++) {
    new Worker(__filename, { workerData: module }).on('message', (functions) => {
      up++;
      if (up === 2) ready({ pid: process.pid, functions });
    });
  }
}

function inWorker() {
  const works = exported(instantiate(workerData));
  warm(works);
  calibrate(works[0]);
  level(works);
  parentPort.postMessage(works.map((work, i) => ({ ...identify(work), percent: percents[i] })));
  for (;;) for (const i of order) works[i](rounds);
}

// nest spins in a module below JavaScript below two others.
function nest() {
  const told = () => {
    observe();
    ready({ pid: process.pid, frames: trace.slice(1) });
  };
  const deep = build({
    name: 'deep', functions: {
      spinning: worker([...call(0), ...forever(spins)]),
      indirect: worker([...local(0), ...i32(0), ...callIndirect(types.work), ...set(1)]),
      direct: worker([...local(0), ...call(2), ...set(1)]),
    },
  }, { observe: told });
  function between(n) { return deep.direct(n); }
  const middle = build({
    naming: false, imports: ['observe', 'between'], functions: { middle: worker([...local(0), ...call(1), ...set(1)]) },
  }, { between });
  const outer = build({
    name: 'outer', imports: ['observe', 'middle'], functions: {
      last: worker([...local(0), ...call(1), ...set(1)]),
      first: worker([...local(0), ...call(2), ...set(1)]),
    },
  }, { middle: middle.middle });
  return outer.first(endless);
}

async function main(form) {
  if (!isMainThread) return inWorker();
  if (form === '--list') return [...Object.keys(forms), 'workers'].forEach((name) => say(name));
  if (form === 'workers') return shareWorkers();
  if (form === 'nested') return nest();
  if (!forms[form]) throw new Error(`no form ${form} (--list prints them)`);
  return share(form);
}

main(process.argv[2]);
