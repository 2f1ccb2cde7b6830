// work.js: does a fixed amount of mixed work for each SIGUSR2, then says done.
// The same calls in the same order each time, so that the CPU it takes can be
// compared. Run it with --single-threaded to have all of it on one thread.
'use strict';

const crypto = require('crypto');
const { say, ready } = require('./lib/ready');

class Order {
  constructor(id) { this.id = id; this.lines = Array.from({ length: 6 }, (_, i) => ({ id: i, price: (id * 7 + i) % 97 })); }
  total() { return this.lines.reduce((sum, line) => sum + line.price, 0); }
}

function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

function countWords(text) {
  const words = new Map();
  for (const [word] of text.matchAll(/\w+/g)) words.set(word, (words.get(word) || 0) + 1);
  return words.size;
}

function round(n) {
  const orders = Array.from({ length: 60 }, (_, i) => new Order(n + i));
  orders.sort((a, b) => a.total() - b.total() || a.id - b.id);
  const text = JSON.stringify(orders);
  return JSON.parse(text).length + countWords(text) + fib(18) +
    crypto.createHash('sha256').update(text).digest()[0];
}

function work(rounds) {
  let sum = 0;
  for (let n = 0; n < rounds; n++) sum += round(n);
  return sum;
}

const rounds = Number(process.argv[2] || 100);
work(rounds); // so that all of it is compiled
process.on('SIGUSR2', () => say('done', { sum: work(rounds) }));
setInterval(() => {}, 1 << 30);
ready({ pid: process.pid });
