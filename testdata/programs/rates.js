// rates.js KIND [on]: makes events of one kind at a rate that is set, for half a second at each
// SIGUSR2, or from then on, by doing sums between them, then says how many came each second.
'use strict';

const { Worker, isMainThread, workerData } = require('worker_threads');
const { say, ready } = require('./lib/ready');

const kinds = {
  calls: { each: 1, rate: 100_000, one() { process.getuid(); } },
  switches: { each: 2, rate: 50_000, one: () => { pass(0); } },
  bytes: { each: 1024, rate: 500_000_000, one: allocate },
};

const sink = new Array(64);
function allocate() { // 1 KiB in objects of 64 bytes
  for (let i = 0; i < 16; i++) sink[i] = { a: i, b: i, c: i, d: i, e: i };
}

// pass hands the turn to the other thread, and waits until it is back.
const turns = isMainThread ? new Int32Array(new SharedArrayBuffer(4)) : workerData;
function pass(mine) {
  Atomics.store(turns, 0, 1 - mine);
  Atomics.notify(turns, 0);
  Atomics.wait(turns, 0, 1 - mine);
}

function spin(steps) {
  let x = 1;
  for (let i = 0; i < steps; i++) x = (x * 48271) % 2147483647;
  return x;
}

// nanoseconds returns what f takes once it is compiled, in the median of some rounds.
function nanoseconds(f) {
  const all = [];
  for (let i = 0; i < 10_000; i++) f();
  for (let round = 0; round < 15; round++) {
    const begin = process.hrtime.bigint();
    for (let i = 0; i < 200; i++) f();
    all.push(Number(process.hrtime.bigint() - begin) / 200);
  }
  return all.sort((a, b) => a - b)[7];
}

function main() {
  const { each, rate, one } = kinds[process.argv[2]];
  if (process.argv[2] === 'switches') new Worker(__filename, { workerData: turns }).unref();
  const period = 1e9 * each / rate;
  const rest = Math.max(0, period - nanoseconds(one));
  const steps = Math.round(rest / (nanoseconds(() => spin(100)) / 100));
  function round() {
    const begin = process.hrtime.bigint();
    const count = Math.round(0.5e9 / period);
    let sum = 0;
    for (let i = 0; i < count; i++) {
      sum += spin(steps);
      one();
    }
    return { rate: count * each * 1e9 / Number(process.hrtime.bigint() - begin), sum };
  }
  round(); // so that all of it is compiled
  process.on('SIGUSR2', () => {
    do say('done', round()); while (process.argv[3] === 'on');
  });
  setInterval(() => {}, 1 << 30);
  ready();
}

if (isMainThread) main();
else {
  Atomics.wait(turns, 0, 0);
  for (;;) pass(1);
}
