'use strict';
// On SIGUSR2, waits in known ways on the main thread, on a worker and in libuv's pool, and prints how
// long each took, in ns, by the function that waited: the time that has passed, without the CPU time
// that the process has used meanwhile. A function waits many times, for times that are random within
// bounds, some far shorter than others.

const { execFileSync, spawn } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { isMainThread, parentPort, Worker } = require('worker_threads');
const { ready, say } = require('./lib/ready');

const word = new Int32Array(new SharedArrayBuffer(4));
const waited = {};

function timed(name, wait) {
  const used = process.cpuUsage();
  const began = process.hrtime.bigint();
  wait();
  const { user, system } = process.cpuUsage(used);
  waited[name] = Number(process.hrtime.bigint() - began) - 1000 * (user + system);
}

function longWait() {
  for (let i = 0; i < 20; i++) Atomics.wait(word, 0, 0, 5 + 20 * Math.random());
}

function shortWait() {
  for (let i = 0; i < 4000; i++) Atomics.wait(word, 0, 0, 0.02 + 0.06 * Math.random());
}

function workerWait() {
  for (let i = 0; i < 30; i++) Atomics.wait(word, 0, 0, 5 + 10 * Math.random());
}

if (!isMainThread) {
  parentPort.on('message', () => {
    timed('workerWait', workerWait);
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
  timed('longWait', longWait);
  timed('shortWait', shortWait);
  worker.postMessage('wait');
});
setInterval(() => {}, 1e9);
