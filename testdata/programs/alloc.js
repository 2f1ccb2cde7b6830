'use strict';
// alloc.js [MB [--sampler]]: allocates in slices of random length, at SIGUSR2, and prints how many
// bytes each function has allocated by its own count, and how long V8 has collected garbage; with
// --sampler, also how many bytes V8's sampling heap profiler has seen of each function. It collects
// no garbage of its own accord before the signal, and none after it has printed.

const { observed } = require('./lib/observed');
const { ready, say } = require('./lib/ready');
const { Session } = require('inspector');
const { PerformanceObserver, constants } = require('perf_hooks');
const v8 = require('v8');
const vm = require('vm');

v8.setFlagsFromString('--no-memory-reducer');
v8.setFlagsFromString('--expose-gc');

const TOTAL = Number(process.argv[2] || 400) << 20;
const MEAN = 50 << 10; // of a slice
const sink = new Array(64);
let at = 0;

function allocObjects(bytes) { // of 64 bytes
  for (let i = 0; i < bytes; i += 64) sink[at++ & 63] = { a: i, b: i, c: i, d: i, e: i };
}
function allocStrings(bytes) { // cons strings of 32 bytes
  for (let i = 0; i < bytes; i += 32) sink[at++ & 63] = texts[i & 7] + texts[at & 7];
}
function allocArrays(bytes) { // of 8 elements: 80 and the array's 32
  for (let i = 0; i < bytes; i += 112) sink[at++ & 63] = [i, at, i, at, i, at, i, at];
}
function allocBuffer(bytes) { sink[at++ & 63] = Buffer.allocUnsafeSlow(bytes); }
function allocLarge(elements) { sink[at++ & 63] = new Array(elements); }

const texts = [];
for (let i = 0; i < 8; i++) texts.push('some text that is long ' + i);
const kinds = [[allocObjects, 0.5], [allocStrings, 0.3], [allocArrays, 0.2]];
const truth = { allocObjects: 0, allocStrings: 0, allocArrays: 0, allocBuffer: 0, allocLarge: 0 };

function slice() {
  let r = Math.random(), k = 0;
  while (k < 2 && r >= kinds[k][1]) r -= kinds[k++][1];
  const bytes = Math.floor(-Math.log(1 - Math.random()) * MEAN) + 112;
  kinds[k][0](bytes);
  truth[kinds[k][0].name] += bytes;
  return bytes;
}

function turn(left, done) {
  for (let i = 0; i < 40 && left > 0; i++) left -= slice();
  const bytes = 1000 + Math.floor(Math.random() * 100000);
  allocBuffer(bytes);
  truth.allocBuffer += bytes;
  const elements = 30000; // the array's elements: 8 bytes each and a header
  allocLarge(elements);
  truth.allocLarge += 8 * elements + 16;
  if (left > 0) setImmediate(turn, left, done);
  else observed(done);
}

const pauses = {};
new PerformanceObserver((list) => {
  for (const e of list.getEntries()) {
    const kind = e.detail ? e.detail.kind : e.kind;
    const name = Object.keys(constants).find((n) => n.startsWith('NODE_PERFORMANCE_GC_') && constants[n] === kind);
    const p = pauses[name] = pauses[name] || { count: 0, ms: 0 };
    p.count++;
    p.ms += e.duration;
  }
}).observe({ entryTypes: ['gc'] });

for (let i = 0; i < 300; i++) slice(); // optimized from here on
for (const name in truth) truth[name] = 0;
vm.runInNewContext('gc')(); // ends the collection that may be under way

// sampler starts V8's sampling heap profiler, and returns what returns its bytes by function.
function sampler() {
  const session = new Session();
  session.connect();
  session.post('HeapProfiler.startSampling', {
    samplingInterval: 16 << 10, includeObjectsCollectedByMajorGC: true, includeObjectsCollectedByMinorGC: true,
  });
  return () => {
    const sampled = {};
    const add = ({ callFrame, selfSize, children }) => {
      sampled[callFrame.functionName] = (sampled[callFrame.functionName] || 0) + selfSize;
      children.forEach(add);
    };
    session.post('HeapProfiler.stopSampling', (err, { profile }) => add(profile.head)); // calls back at once
    return sampled;
  };
}

process.on('SIGUSR2', () => {
  for (const kind in pauses) delete pauses[kind];
  const sampled = process.argv[3] === '--sampler' ? sampler() : () => undefined;
  turn(TOTAL, () => {
    say('done', { truth, pauses, sampled: sampled() });
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  });
});
setInterval(() => {}, 1000);
ready();
