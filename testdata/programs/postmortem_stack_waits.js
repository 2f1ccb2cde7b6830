// postmortem_stack_waits.js: generators and async functions that wait.
//
// Its ready line has, for each place where some do, how many, and where that is.
'use strict';

const fs = require('fs');
const { ready } = require('./lib/ready');

const never = new Promise(() => {});
const held = [];

async function first() { await never; /* first */ }
async function second(n) {
  const text = String(n);
  await never; /* second */
  return text;
}
function* yields() { yield 1; /* yields */ yield 2; }
function* unbegun() { yield 1; }
async function* both() { await never; /* both */ yield 1; }

const counts = { first: 7, second: 11, yields: 5, unbegun: 3, both: 2, ended: 0 };
function* ended() { yield 1; }

for (let i = 0; i < counts.first; i++) held.push(first());
for (let i = 0; i < counts.second; i++) held.push(second(i));
for (let i = 0; i < counts.yields; i++) {
  const generator = yields();
  generator.next();
  held.push(generator);
}
for (let i = 0; i < counts.unbegun; i++) held.push(unbegun());
for (let i = 0; i < counts.both; i++) {
  const generator = both();
  held.push(generator, generator.next());
}
for (let i = 0; i < 4; i++) {
  const generator = ended();
  held.push(generator, [...generator]);
}

// lineOf returns the line with a comment of that text.
function lineOf(text) {
  const lines = fs.readFileSync(__filename, 'utf8').split('\n');
  return lines.findIndex((line) => line.includes(`/* ${text} */`)) + 1;
}

global.held = held;
setImmediate(() => {
  const lines = Object.fromEntries(['first', 'second', 'yields', 'both'].map((name) => [name, lineOf(name)]));
  ready({ pid: process.pid, file: __filename, counts, lines });
  setInterval(() => {}, 1 << 30);
});
