'use strict';
// classes.js N: makes N classes, each with a text, a constructor and a method of its own, and
// keeps one object of each.

const { ready } = require('./lib/ready');

const n = Number(process.argv[2]);
const together = 500; // in one script
globalThis.kept = [];
for (let first = 0; first < n; first += together) {
  const texts = [];
  for (let i = first; i < Math.min(first + together, n); i++) {
    texts.push(`class Class${i} { constructor() { this.field${i} = ${i}; } method${i}() { return this.field${i}; } }`);
  }
  for (const Class of (0, eval)(`[${texts.join(',\n')}]`)) globalThis.kept.push(new Class());
}
ready({});
setInterval(() => {}, 1 << 30);
