'use strict';
// Leaks about 100 MB in the way that its first argument names, then says ready and waits. The
// second is the add-on leaks.cc. At SIGUSR2 it prints what malloc says about itself.

const [way, addon] = process.argv.slice(2);

const ways = {
  buffers() { // kept by a Map
    globalThis.cache = new Map();
    for (let i = 0; i < 1600; i++) cache.set(`key ${i}`, Buffer.alloc(1 << 16, 1));
  },
  malloc() { require(addon).keep(100_000, 1000); },
  lost() {
    require(addon).lose(50_000, 1000);
    require(addon).widgets(50_000);
  },
  fragmentation() { // a burst of blocks, of which every 64th stays
    let all = [];
    for (let i = 0; i < 150_000; i++) all.push(Buffer.allocUnsafeSlow(800).fill(1));
    globalThis.kept = all.filter((_, i) => i % 64 === 0);
    all = null;
  },
  strings() { // too long for V8's heap
    globalThis.logs = [];
    for (let i = 0; i < 50; i++) logs.push(Buffer.alloc(2_000_000, `line ${i} `).toString('latin1'));
    gc();
  },
  workers() { // never terminated
    const { Worker } = require('worker_threads');
    globalThis.pool = [];
    const started = [];
    for (let i = 0; i < 12; i++) {
      const worker = new Worker(`require('worker_threads').parentPort.postMessage(1); setInterval(() => {}, 1 << 30);`, { eval: true });
      pool.push(worker);
      started.push(new Promise((done) => worker.once('message', done)));
    }
    return Promise.all(started);
  },
  objects() {
    globalThis.sessions = [];
    for (let i = 0; i < 400_000; i++) sessions.push({ id: i, headers: { host: i }, tags: [i, i + 1] });
    gc();
  },
  nothing() {},
};

(async () => {
  await ways[way]();
  // Another thread frees the memory of dead buffers.
  for (gc(); way === 'fragmentation' && process.memoryUsage().arrayBuffers > 20e6; gc()) await new Promise(setImmediate);
  process.on('SIGUSR2', () => console.log(JSON.stringify(require(addon).info())));
  console.log('ready');
  setInterval(() => {}, 1 << 30);
})();
