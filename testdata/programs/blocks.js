// blocks.js: at SIGUSR2, the main thread and a worker block their event loops three times each, for
// 600 ms, and wait in between. It then prints "blocked".
'use strict';

const { Worker, isMainThread, parentPort } = require('worker_threads');
const { say, ready } = require('./lib/ready');

function block(times, done) {
  const end = process.hrtime.bigint() + 600000000n;
  while (process.hrtime.bigint() < end);
  if (times > 1) setTimeout(block, 20, times - 1, done); else setTimeout(done, 20);
}

if (isMainThread) {
  const worker = new Worker(__filename);
  let left = 2;
  const done = () => { if (!--left) say('blocked'); };
  worker.on('message', (what) => { if (what === 'ready') ready(); else done(); });
  process.on('SIGUSR2', () => { worker.postMessage('block'); block(3, done); });
} else {
  parentPort.on('message', () => block(3, () => parentPort.postMessage('done')));
  parentPort.postMessage('ready');
}
