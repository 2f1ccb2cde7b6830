// workers.js N: N worker threads that spin, thread i in worker_<i>_spin, while
// the main thread spins in main_spin.
'use strict';

const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { ready } = require('./lib/ready');

// spinner returns a function of that name which never returns.
function spinner(name) {
  return new Function(`return function ${name}() {
  for (let x = 1; ;) { x ^= x << 13; x ^= x >>> 17; x ^= x << 5; }
}`)();
}

function start(count) {
  let up = 0;
  const begin = () => {
    ready({ pid: process.pid, workers: count });
    spinner('main_spin')();
  };
  for (let i = 0; i < count; i++) {
    new Worker(__filename, { workerData: i }).once('message', () => {
      up++;
      if (up === count) begin();
    });
  }
  if (count === 0) begin();
}

if (isMainThread) {
  start(Number(process.argv[2] || 2));
} else {
  parentPort.postMessage('up');
  spinner(`worker_${workerData}_spin`)();
}
