'use strict';
// On SIGUSR2, waits in known ways on the main thread, on a worker and in libuv's pool, and prints how
// long each took, in ns, by the function that waited. A function waits many times, for times that are
// random within bounds, some far shorter than others.

const { execFileSync, spawn } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { isMainThread, parentPort, Worker } = require('worker_threads');
const { ready, say } = require('./lib/ready');

const word = new Int32Array(new SharedArrayBuffer(4));
const waited = {};

// timed waits so many times, and notes how long that took for the function that calls it.
function timed(name, times, milliseconds) {
  const began = process.hrtime.bigint();
  for (let i = 0; i < times; i++) Atomics.wait(word, 0, 0, milliseconds());
  waited[name] = Number(process.hrtime.bigint() - began);
}

const between = (low, high) => () => low + (high - low) * Math.random();

function longWait() { timed('longWait', 20, between(5, 25)); }
// cpuTime returns the CPU time of this thread, in ns.
const cpuTime = () => Number(fs.readFileSync('/proc/thread-self/schedstat', 'latin1').split(' ')[0]);
// shortWait waits for so short that the CPU time in between matters, which it notes as well.
function shortWait() {
  const used = cpuTime();
  timed('shortWait', 4000, between(0.02, 0.08));
  waited.shortWaitCPU = cpuTime() - used;
}
function workerWait() { timed('workerWait', 30, between(5, 15)); }

if (!isMainThread) {
  parentPort.on('message', () => {
    workerWait();
    parentPort.postMessage(waited.workerWait);
  });
  return;
}

// A pipe that is written to after a while, by another process.
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'waits-'));
const pipe = path.join(folder, 'pipe');
execFileSync('mkfifo', [pipe]);
const writer = `exec 3<>'${pipe}'; while read line; do sleep "$line"; printf x >&3; done`;
const shell = spawn('sh', ['-c', writer], { stdio: ['pipe', 'ignore', 'ignore'] });
const descriptor = fs.openSync(pipe, 'r+');

// In a job of the pool.
function poolWait(done) {
  const began = process.hrtime.bigint();
  fs.read(descriptor, Buffer.alloc(1), 0, 1, null, () => {
    waited.poolWait = Number(process.hrtime.bigint() - began);
    done();
  });
  shell.stdin.write('0.3\n');
}

const worker = new Worker(__filename);
worker.on('online', () => ready());
worker.on('message', (ns) => {
  waited.workerWait = ns;
  poolWait(() => {
    shell.kill();
    fs.rmSync(folder, { recursive: true });
    say('done', waited);
  });
});
process.on('SIGUSR2', () => {
  longWait();
  shortWait();
  worker.postMessage('wait');
});
setInterval(() => {}, 1e9);
