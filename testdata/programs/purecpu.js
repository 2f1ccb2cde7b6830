// purecpu.js: nothing but JavaScript on the CPU: its loops call no library function.
'use strict';

const { ready } = require('./lib/ready');

function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

function sieve(size, marks) {
  let primes = 0;
  for (let i = 0; i < size; i++) marks[i] = 1;
  for (let i = 2; i < size; i++) {
    if (marks[i] === 1) {
      primes++;
      for (let j = i + i; j < size; j += i) marks[j] = 0;
    }
  }
  return primes;
}

function multiply(a, b, c, n) {
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) {
      let sum = 0;
      for (let k = 0; k < n; k++) sum += a[i * n + k] * b[k * n + j];
      c[i * n + j] = sum % 1000;
    }
  }
  return c[n];
}

class Tree {
  constructor(value) { this.value = value; this.left = null; this.right = null; }
  insert(value) {
    const side = value < this.value ? 'left' : 'right';
    if (this[side] === null) this[side] = new Tree(value);
    else this[side].insert(value);
  }
  sum() {
    return this.value + (this.left ? this.left.sum() : 0) + (this.right ? this.right.sum() : 0);
  }
}

function plant(count) {
  const tree = new Tree(count >> 1);
  for (let i = 0, x = 1; i < count; i++) {
    x = (x * 16807) % 2147483647;
    tree.insert(x % count);
  }
  return tree.sum();
}

function pureMain() {
  const marks = new Uint8Array(10000);
  const n = 48;
  const [a, b, c] = [0, 0, 0].map((_, at) => new Int32Array(n * n).fill(at + 3));
  ready({ pid: process.pid });
  for (let kept = 0; ; kept &= 0xffff) {
    kept += fib(20) + sieve(marks.length, marks) + multiply(a, b, c, n) + plant(1000);
  }
}

pureMain();
