// inlines.js [--exact]: runs functions that V8 inlines into one another, in loops, closures,
// constructors, accessors, callbacks and with other numbers of arguments than they have,
// until all of them are optimized. Then it waits until its input is closed. Run it with
// flags that have V8 print the code. With --exact, functions get as many arguments as they
// have: V8 13.6 ends when it prints code of others.
'use strict';

const fs = require('fs');

const exact = process.argv.includes('--exact');

class Point {
  constructor(x, y) {
    this.x = x;
    this.y = y;
  }

  get length() {
    return Math.sqrt(this.x * this.x + this.y * this.y);
  }

  add(other) {
    return new Point(this.x + other.x, this.y + other.y);
  }
}

class Named extends Point {
  constructor(x, y, name) {
    super(x, y);
    this.name = name;
  }
}

function loop(values, by) {
  let sum = 0;
  for (let i = 0; i < 10; i++) {
    sum += values[i % values.length] * by;
    if (sum > 1e9) sum = parse(sum);
  }
  return sum;
}

function parse(n) {
  return parseInt(String(n).slice(0, 3), 10);
}

function callbacks(values) {
  let sum = values.map((x) => x * 2).filter((x) => x % 3).reduce((a, b) => a + b, 0);
  values.forEach((x, i) => {
    sum += loop([x, i], 2);
  });
  return sum;
}

function thrown(n) {
  try {
    if (n % 7 === 0) throw new Error('seven');
    return n;
  } catch (e) {
    return e.message.length;
  } finally {
    n++;
  }
}

function* numbers(n) {
  for (let i = 0; i < n; i++) yield i;
}

function iterates(n) {
  let sum = 0;
  for (const v of numbers(n)) sum += v;
  for (const [, v] of Object.entries({ a: 1, b: n })) sum += v;
  return sum;
}

function nested(n) {
  let sum = 0;
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < 3; j++) {
      sum += new Named(i, j, 'n').add(new Point(1, 2)).length;
      sum = Math.floor(sum) % 10007;
    }
  }
  return sum;
}

function counts() {
  return arguments.length + rest(...arguments) + two(1) + two(1, 2, 3);
}

function rest(...all) {
  return all.length;
}

function two(a, b) {
  return a + (b === undefined ? 1 : b);
}

function big(n) {
  return Number(BigInt.asUintN(64, BigInt(n) * 77n) & 0xffn);
}

function main(n) {
  const values = [1, 2, 3, n, 5.5];
  return loop(values, 3) + thrown(n) + iterates(5) + nested(4) + (exact ? 0 : callbacks(values) + counts(n, 2, 3)) + big(n);
}

let total = 0;
for (let n = 0; n < 30000; n++) total += main(n);
console.log(total);
console.log('ready');
fs.readSync(0, Buffer.alloc(1));
