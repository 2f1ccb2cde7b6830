'use strict';
// On SIGUSR2, opens files in three functions, 3 to 2 to 1 times a prime number each, and writes a
// random number of bytes in two, then prints how many of each.

const fs = require('fs');
const { ready, say } = require('./lib/ready');

const times = 1009;
const sink = fs.openSync('/dev/null', 'w');
const done = { first: 0, second: 0, third: 0, little: 0, much: 0, writes: 0 };

function open(name) {
  try {
    fs.openSync('/nonexistent/file');
  } catch {
    done[name]++;
  }
}

function first() { open('first'); }
function second() { open('second'); }
function third() { open('third'); }

function write(bytes) {
  done.writes++;
  return fs.writeSync(sink, Buffer.alloc(bytes));
}

function little() { done.little += write(1 + Math.floor(100 * Math.random())); }
function much() { done.much += write(1000 + Math.floor(10000 * Math.random())); }

process.on('SIGUSR2', () => {
  for (let i = 0; i < 3 * times; i++) {
    first();
    if (i % 3 < 2) second();
    if (i % 3 < 1) third();
    if (i % 3 < 1) { little(); much(); }
  }
  say('done', done);
});
setInterval(() => {}, 1e9);
ready();
