// heap.js MEGABYTES [WORKERS]: a heap of that size and so many threads that
// wait. On SIGUSR2 it adds up what the heap should hold, prints the sum, and ends.
// On SIGWINCH it prints the longest gap of a 1 ms timer since the last time.
'use strict';

const path = require('path');
const { performance } = require('perf_hooks');
const { Worker, isMainThread, parentPort } = require('worker_threads');
const programs = path.join(__dirname, '..', '..', '..', 'testdata', 'programs');
const { ready, say } = require(path.join(programs, 'lib', 'ready'));

const length = 90; // of an array; it and its header are 736 bytes

function fill(megabytes) {
  const arrays = [];
  for (let bytes = 0; bytes < megabytes * 2 ** 20; bytes += (length + 2) * 8) {
    arrays.push(new Array(length).fill(arrays.length));
  }
  return arrays;
}

function timeGaps() {
  let last = performance.now();
  let longest = 0;
  const tick = () => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
  };
  process.on('SIGWINCH', () => {
    tick();
    say('gap', { milliseconds: longest });
    longest = 0;
  });
  setInterval(tick, 1);
}

function main() {
  const arrays = fill(Number(process.argv[2]));
  const workers = Number(process.argv[3] || 0);
  process.on('SIGUSR2', () => {
    let sum = 0;
    for (const array of arrays) for (const value of array) sum += value;
    say('sum', { arrays: arrays.length, sum });
    process.exit(0);
  });
  timeGaps();
  let up = 0;
  const begin = () => ready({ pid: process.pid, arrays: arrays.length });
  for (let i = 0; i < workers; i++) {
    new Worker(__filename).once('message', () => { if (++up === workers) begin(); });
  }
  if (workers === 0) begin();
}

if (isMainThread) main();
else {
  parentPort.postMessage('up');
  setInterval(() => {}, 1000);
}
