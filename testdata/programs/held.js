'use strict';
// Makes objects that only something outside of the heap keeps alive, a class for
// each way, and says how many of each there are; and some that nothing does. It
// collects all garbage and then stands still in a call. Argument: worker, to have
// one more isolate.

const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const { MessageChannel, Worker } = require('worker_threads');

require('v8').setFlagsFromString('--expose-gc');
const collect = require('vm').runInNewContext('gc');

class ByTimer { constructor(i) { this.i = i; } }
class ByServer { constructor(i) { this.i = i; } }
class ByPort { constructor(i) { this.i = i; } }
class ByAwait { constructor(i) { this.i = i; } }
class BySignal { constructor(i) { this.i = i; } }
class ByRequest { constructor(i) { this.i = i; } }
class ByImmediate { constructor(i) { this.i = i; } }
class ByMicrotask { constructor(i) { this.i = i; } }
class ByVariable { constructor(i) { this.i = i; } }
class ByArgument { constructor(i) { this.i = i; } }
class ByHandle { constructor(i) { this.i = this.index = i; this[0] = 'x'; this.length = 1; } }
class ByWeakRef { constructor(i) { this.i = i; } }
class ByNothing { constructor(i) { this.i = i; } }
class ByWeakMap { constructor(i) { this.i = i; } }

const long = 1 << 30;
const held = {};

// Has make hold count objects of a class.
function hold(Class, count, make) {
  held[Class.name] = count;
  for (let i = 0; i < count; i++) make(new Class(i));
}

function holdBeforehand() {
  hold(ByTimer, 101, (o) => setTimeout(() => o, long));
  hold(ByServer, 11, (o) => http.createServer(() => o).listen(0));
  hold(ByPort, 7, (o) => new MessageChannel().port1.on('message', () => o));
  hold(ByAwait, 103, async (o) => { await new Promise((resolve) => setTimeout(resolve, long)); return o; });
  hold(BySignal, 1, (o) => process.on('SIGUSR2', () => o));
}

// A replacement has V8 keep all matches in C++ before it asks for what replaces them.
class Matches extends RegExp {
  exec() { return this.lastIndex++ < held.ByHandle ? new ByHandle(this.lastIndex - 1) : null; }
}

function standStill(argument) {
  held.ByHandle = 2003;
  return 'x'.repeat(held.ByHandle).replace(new Matches('x', 'g'), () => standStillThere(argument));
}

function standStillThere(argument) {
  const variable = new ByVariable(1);
  hold(ByRequest, 13, (o) => fs.open('/dev/null', () => o));
  hold(ByImmediate, 17, (o) => setImmediate(() => o));
  hold(ByWeakRef, 107, (o) => new WeakRef(o)); // until what runs at the moment returns
  hold(ByMicrotask, 1009, (o) => Promise.resolve().then(() => o));
  collect();
  collect();
  collect();
  // From here on nothing is collected any more, so what nothing holds stays there.
  let dropped = Array.from({ length: 211 }, (_, i) => new ByNothing(i));
  dropped = null;
  const map = new WeakMap();
  for (let i = 0; i < 113; i++) map.set(new ByWeakMap(i), i);
  for (let i = 0; i < 223; i++) crypto.createHash('sha256');
  Object.assign(held, { ByVariable: 1, ByArgument: 1, ByNothing: 0, ByWeakMap: 0, InWorker: worker ? 109 : 0 });
  fs.writeSync(1, `ready ${JSON.stringify({ held })}\n`);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, long);
  return [argument, variable, map];
}

const inWorker = `
  class InWorker { constructor(i) { this.i = i; } }
  const { parentPort } = require('worker_threads');
  const collectHere = require('vm').runInNewContext('gc');
  parentPort.kept = Array.from({ length: 109 }, (_, i) => new InWorker(i));
  parentPort.on('message', () => {});
  setTimeout(() => { collectHere(); collectHere(); collectHere(); parentPort.postMessage('ready'); }, 100);
`;
const worker = process.argv[2] === 'worker' ? new Worker(inWorker, { eval: true }) : null;
holdBeforehand();
if (worker) worker.once('message', () => standStill(new ByArgument(1)));
else setTimeout(() => standStill(new ByArgument(1)), 100);
