// trouble.js SCENARIO: on SIGUSR2 does what stopon waits for a prime number of
// times, among many near misses, and says what it did. --list prints the
// scenarios. Every expected event happens under the function `guilty`.
'use strict';

const fs = require('fs');
const net = require('net');
const os = require('os');
const path = require('path');
const { execFileSync } = require('child_process');
const { createHash } = require('crypto');
const { say, ready } = require('./lib/ready');

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'trouble-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));

// fails runs f, which must throw an error of that code.
function fails(code, f) {
  try {
    f();
  } catch (err) {
    if (err.code === code) return;
    throw err;
  }
  throw new Error(`no ${code}`);
}

function open(name = 'file') { return fs.openSync(path.join(folder, name), 'w+'); }

// closed returns a descriptor that is open no more. Other threads, as malloc's when
// it gives memory back, open files, too: they get lower ones.
function closed() {
  const lower = Array.from({ length: 8 }, () => open());
  const fd = open();
  for (const other of lower) fs.closeSync(other);
  fs.closeSync(fd);
  return fd;
}

// names are the functions on the stack, leaf first, as the program itself sees them.
function names() {
  const limit = Error.stackTraceLimit;
  const prepare = Error.prepareStackTrace;
  Error.stackTraceLimit = 50;
  Error.prepareStackTrace = (_, sites) => sites.slice(1).map((site) => site.getFunctionName());
  const stack = new Error().stack;
  Error.stackTraceLimit = limit;
  Error.prepareStackTrace = prepare;
  return stack;
}

// busy keeps the thread for so many milliseconds.
function busy(milliseconds) {
  const end = process.hrtime.bigint() + BigInt(milliseconds * 1e6);
  let x = 1;
  while (process.hrtime.bigint() < end) for (let i = 0; i < 1000; i++) x = (x * 48271) % 2147483647;
  return x;
}

const cell = new Int32Array(new SharedArrayBuffer(4));
function sleep(milliseconds) { Atomics.wait(cell, 0, 0, milliseconds); }

function pause(milliseconds) { return new Promise((resolve) => setTimeout(resolve, milliseconds)); }

// repeat calls f, which closes a descriptor, for some time, and says how many it
// closed and in how many seconds of the process's CPU time.
function repeat(f) {
  const begun = process.cpuUsage();
  let closed = 0;
  for (const end = Date.now() + 300; Date.now() < end; closed += 100) for (let i = 0; i < 100; i++) f();
  const { user, system } = process.cpuUsage(begun);
  return { closed, seconds: (user + system) / 1e6 };
}

const needle = 'needle-42';
let continued = 0;

const scenarios = {
  // A descriptor is closed twice; others are closed once, or bad ones are read.
  badclose() {
    const facts = { events: 13, sum: 0 };
    function guilty(fd) {
      facts.stack = names();
      fails('EBADF', () => fs.closeSync(fd));
    }
    for (let i = 0; i < facts.events; i++) {
      for (let k = 0; k < 20; k++) fs.closeSync(open());
      fails('EBADF', () => fs.readSync(9999, Buffer.alloc(1)));
      fails('EBADF', () => fs.fsyncSync(9999));
      guilty(closed());
      facts.sum += i;
    }
    return facts;
  },

  // A client talks to a server, by TCP and by a Unix socket.
  async sockets() {
    const talk = (to) => new Promise((resolve, reject) => {
      const server = net.createServer((peer) => peer.end('answer')).on('error', reject);
      server.listen(to, () => {
        const { port } = server.address();
        const client = net.connect(port ? { port, host: to.host } : to).on('error', reject).resume();
        client.on('close', () => server.close(() => resolve(port)));
      });
    });
    const unix = path.join(folder, 'socket');
    return { port: await talk({ port: 0, host: '127.0.0.1' }), port6: await talk({ port: 0, host: '::1' }), path: unix, done: await talk({ path: unix }) };
  },

  // The event loop is blocked for 300 ms, once.
  async stallend() {
    function guilty() { busy(300); }
    await pause(1);
    guilty();
    await pause(1);
    return { events: 1 };
  },

  // Exceptions are thrown: some are caught, others are not, by nothing but a
  // handler of uncaughtException. In between, a finally block runs, and memory is
  // collected, so that they move.
  async throws() {
    const facts = { events: 7, caught: 19, uncaught: 0 };
    class Trouble extends TypeError {}
    const swallow = () => { facts.uncaught++; };
    process.on('uncaughtException', swallow);
    function guilty(i) { throw new Trouble(`trouble ${i} ☃`); }
    function innocent(i) {
      try { throw new RangeError(`harmless ${i}`); } catch { /* as it should be */ }
    }
    function cleanUp(i) {
      try { guilty(i); } finally {
        innocent(i);
        for (let k = 0; k < 20; k++) innocent.garbage = new Array(50_000).fill({});
      }
    }
    for (let i = 0; i < facts.caught; i++) innocent(i);
    for (let i = 0; i < facts.events; i++) {
      const before = facts.uncaught;
      if (i % 2) setTimeout(() => cleanUp(i), 1);
      else (async () => { await null; guilty(i); })();
      while (facts.uncaught === before) await pause(1);
    }
    process.off('uncaughtException', swallow);
    return { ...facts, caught: facts.caught + Math.floor(facts.events / 2) };
  },

  // A file that is not there is opened so many times, and the program ends.
  storm() {
    const facts = { events: Number(process.argv[3]) };
    function guilty() { fails('ENOENT', () => fs.openSync('/none/storm.txt', 'r')); }
    for (let i = 0; i < facts.events; i++) guilty();
    setImmediate(() => process.exit(0));
    return facts;
  },

  // One is closed twice by an innocent, too.
  twofold() {
    const facts = { events: 5 };
    function guilty(fd) { fails('EBADF', () => fs.closeSync(fd)); }
    function innocent(fd) { fails('EBADF', () => fs.closeSync(fd)); }
    for (let i = 0; i < facts.events; i++) {
      guilty(9999);
      for (let k = 0; k < 7; k++) innocent(9999);
    }
    return facts;
  },

  // Files whose path is like *secret-?.txt are opened, and others.
  paths() {
    const facts = { events: 11 };
    function guilty(i) { fs.closeSync(open(`a-secret-${i % 10}.txt`)); }
    for (let i = 0; i < facts.events; i++) {
      guilty(i);
      for (const name of ['secret-10.txt', 'secret-1.txt.bak', 'secret-.txt', 'secret', 'Secret-1.txt']) {
        fs.closeSync(open(name));
      }
      fails('ENOENT', () => fs.openSync(path.join(folder, 'none', `secret-${i % 10}.tx`), 'r'));
    }
    return facts;
  },

  // A word is written: at the start, the end, across where a search begins
  // anew, in one of several buffers. Parts of it are written, too.
  writes() {
    const facts = { events: 17 };
    const fd = open();
    function guilty(i) {
      const filler = 'needle-4'.repeat(i * 9) + '.'.repeat(i);
      if (i % 3 === 2) fs.writevSync(fd, [Buffer.from(filler), Buffer.from(`${needle}.`), Buffer.from('end')]);
      else fs.writeSync(fd, i % 3 ? filler + needle : needle + filler);
    }
    for (let i = 0; i < facts.events; i++) {
      guilty(i);
      for (const text of ['needle-4', 'eedle-42', 'needle-43', '', 'needle-4'.repeat(100)]) fs.writeSync(fd, text);
    }
    fs.closeSync(fd);
    return facts;
  },

  // A system call takes long.
  slow() {
    const facts = { events: 5 };
    function guilty() { sleep(60); }
    for (let i = 0; i < facts.events; i++) {
      guilty();
      for (let k = 0; k < 10; k++) sleep(1);
    }
    return facts;
  },

  // A signal is delivered, and others are.
  async signals() {
    const facts = { events: 7 };
    let seen = 0;
    const handle = () => { seen++; };
    process.on('SIGHUP', handle);
    process.on('SIGWINCH', handle);
    for (let i = 0; i < facts.events; i++) {
      for (const signal of ['SIGWINCH', 'SIGHUP', 'SIGWINCH']) {
        const before = seen;
        process.kill(process.pid, signal);
        while (seen === before) await pause(1);
      }
    }
    process.off('SIGHUP', handle);
    process.off('SIGWINCH', handle);
    return facts;
  },

  // Nothing happens but that it is resumed, by whoever does so: it counts that.
  continued() { return { events: continued }; },

  // A function of node's own is called, and fails at times.
  functions() {
    const facts = { events: 7, calls: 19 };
    const home = process.cwd();
    function guilty() { fails('ENOENT', () => process.chdir('/none')); }
    for (let i = 0; i < facts.calls; i++) {
      if (i < facts.events) guilty();
      else process.chdir(home);
    }
    return facts;
  },

  // The event loop is blocked: on the CPU or waiting. On a busy machine it may be
  // so by having no CPU for long: starved is how many times.
  async stalls() {
    const facts = { events: 50, starved: 0 };
    async function turn(f, waits) {
      await pause(1);
      const begun = Date.now();
      const used = process.cpuUsage();
      f();
      const { user, system } = process.cpuUsage(used);
      if (Date.now() - begun - (user + system) / 1e3 - waits > 50) facts.starved++;
    }
    for (let i = 0; i < facts.events; i++) {
      await turn(function guilty() { return i % 5 ? busy(200) : sleep(200); }, i % 5 ? 0 : 200);
      for (let k = 0; k < 3; k++) await turn(() => busy(20), 0);
    }
    await pause(1);
    return facts;
  },

  // The event loop waits for a moment, many times.
  async naps() {
    const facts = { events: 997 };
    function guilty() { sleep(3); }
    for (let i = 0; i < facts.events; i++) {
      await pause(1);
      guilty();
    }
    await pause(1);
    return facts;
  },

  // A function without loops returns, again and again: V8 looks then whether to
  // compile it.
  returns() {
    function guilty(n) { return n < 2 ? n : guilty(n - 1) + guilty(n - 2); }
    for (let i = 0; i < 100; i++) guilty(20);
    return {};
  },

  // Nothing happens.
  async idle() {
    await pause(1);
    return { events: 0 };
  },

  // It ends with status 3, after children that end with others.
  exit() {
    function guilty() { process.exit(3); }
    for (const status of [0, 1, 2]) {
      try {
        execFileSync('/bin/sh', ['-c', `exit ${status}`]);
      } catch (err) {
        if (err.status !== status) throw err;
      }
    }
    guilty();
  },

  // Descriptors are opened and closed as fast as can be, for a while.
  rush() {
    return repeat(() => fs.closeSync(fs.openSync('/dev/null', 'r')));
  },

  // Files of 4 KB are read and made sense of, for a while: some work for each close.
  files() {
    const rows = Array.from({ length: 80 }, (_, i) => ({ id: i, name: `item ${i}`, price: i * 1.25 }));
    fs.writeFileSync(path.join(folder, 'rows.json'), JSON.stringify(rows));
    return repeat(() => {
      const fd = fs.openSync(path.join(folder, 'rows.json'), 'r');
      const bytes = Buffer.alloc(fs.fstatSync(fd).size);
      fs.readSync(fd, bytes, 0, bytes.length, 0);
      fs.closeSync(fd);
      createHash('sha256').update(bytes).digest('hex');
      if (JSON.parse(bytes).length !== rows.length) throw new Error('not what was written');
    });
  },
};

const scenario = process.argv[2];
if (scenario === '--list') {
  Object.keys(scenarios).forEach((name) => say(name));
} else {
  const run = scenarios[scenario];
  if (!run) throw new Error(`no scenario ${scenario} (--list prints them)`);
  if (scenario === 'continued') process.on('SIGCONT', () => { continued++; });
  process.on('SIGUSR2', async () => say('done', await run()));
  setInterval(() => {}, 1 << 30);
  ready({ pid: process.pid, events: scenario });
}
