// made.js FILE: makes system calls whose arguments and results it knows. At SIGUSR2, the function
// opener fails to open 23 files that do not exist, each by a name of its own, which has a terminal's
// escape in it; writer writes 23 texts of its own to FILE and reads them back; sleeper sleeps in the kernel for
// 1.2 s. It then prints how many of each, as JSON.
'use strict';

const fs = require('fs');
const { say, ready } = require('./lib/ready');

const COUNT = 23;
const file = process.argv[2];

function opener(n) {
  try { fs.openSync(`/nowhere/\x1b[31m${n}`); } catch (e) { return e.code; }
}

function writer(fd, n) {
  return fs.writeSync(fd, `text ${n} \x1b]0;x\x07`, n * 64);
}

function reader(fd, n) {
  return fs.readSync(fd, Buffer.alloc(14), 0, 14, n * 64);
}

function sleeper() {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1200);
}

process.on('SIGUSR2', () => {
  const codes = new Set();
  let bytes = 0, back = 0;
  const fd = fs.openSync(file, 'w+');
  for (let n = 0; n < COUNT; n++) {
    codes.add(opener(n));
    bytes += writer(fd, n);
    back += reader(fd, n);
  }
  fs.closeSync(fd);
  sleeper();
  say('made', { count: COUNT, codes: [...codes], bytes, back });
});

setInterval(() => {}, 1 << 30);
ready();
