// churn.js [COUNT]: keeps COUNT objects of class Live and replaces the oldest of them
// without a pause, so that most are young, collections follow one another, and an
// object lives just long enough to be moved. At any moment COUNT objects of each of
// the classes Live and Part are reachable, give or take the one being made, and twice
// as many of Held, which are never replaced.
//
// Every now and then the list of all is copied, which makes a large young object. With
// --expose-gc, the whole heap is then collected.
'use strict';

const { ready } = require('./lib/ready');

class Part {
  constructor(n) { this.name = 'part ' + n; this.list = [n, n + 0.5]; }
}

class Live {
  constructor(n) { this.n = n; this.part = new Part(n); this.call = () => n; }
}

class Held {
  constructor(n) { this.n = n; }
}

const count = Number(process.argv[2] || 30000);
const batch = 1000; // objects replaced before the event loop has its turn
let ring = [];
for (let n = 0; n < count; n++) ring.push(new Live(n));
const held = new Map();
for (let n = 0; n < 2 * count; n++) held.set(n, new Held(n));
globalThis.kept = { get ring() { return ring; }, held };

let next = 0;
let sum = 0;
function turn() {
  for (let i = 0; i < batch; i++, next++) {
    ring[next % count] = new Live(next);
    sum += [next, { garbage: String(next) }].length;
  }
  if (next % (20 * batch) === 0) {
    ring = ring.slice();
    if (globalThis.gc) gc();
  }
  setImmediate(turn);
}

turn();
ready({ pid: process.pid, count });
