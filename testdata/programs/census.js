'use strict';
// Makes objects of five classes, keeps most and drops the rest, and says how many of each
// there are. Arguments: how many to keep of each class, how many of each to drop, and a file
// for V8's own snapshot of what is kept, if wanted; "-" for no snapshot, nor counts of V8's own.

const EventEmitter = require('events');
const v8 = require('v8');

class Point { constructor(i) { this.x = i; this.y = i + 0.5; } }
class Point3 extends Point { constructor(i) { super(i); this.z = -i; } }
class Named { constructor(i) { this.name = `name ${i}`; this.id = i; } }
class Holder { constructor(i) { this.list = [i, i + 1, i + 2]; this.next = null; } }
function Legacy(i) { this.value = i; this.call = () => i; }

const classes = { Point, Point3, Named, Holder, Legacy };
const [keep, drop] = process.argv.slice(2).map(Number);

function make(count) {
  const made = {};
  for (const [name, Class] of Object.entries(classes)) {
    made[name] = Array.from({ length: count }, (_, i) => new Class(i));
  }
  return made;
}

// A chain of holders, with a name that only its end refers to.
function chain(holders) {
  for (let i = 1; i < holders.length; i++) holders[i - 1].next = holders[i];
}

const kept = make(keep);
chain(kept.Holder);
const keyed = new WeakMap();
keyed.set(kept.Named[0], { onlyByKey: 'through a weak map' });
for (let i = 0; i < 100; i++) keyed.set({}, { neverAgain: i });
const bus = new EventEmitter();
bus.setMaxListeners(0);
for (let i = 0; i < 31; i++) bus.on('tick', () => i);
const texts = Array.from({ length: 100 }, (_, i) => Buffer.from('again and again').toString());
globalThis.kept = kept;
globalThis.others = { bus, texts };
globalThis.keyed = keyed;

const counts = {};
const [, , , , snapshot] = process.argv;
if (snapshot && snapshot !== '-') {
  v8.writeHeapSnapshot(snapshot);
} else if (!snapshot && v8.queryObjects) {
  for (const [name, Class] of Object.entries(classes)) {
    counts[name] = v8.queryObjects(Class, { format: 'count' });
  }
}

let dropped = make(drop);
dropped = null;

// No call of those that made the objects is left when it is said that they are there.
setImmediate(() => console.log('ready ' + JSON.stringify({ keep, drop, classes: Object.keys(classes), queried: counts })));
setInterval(() => {}, 1 << 30);
