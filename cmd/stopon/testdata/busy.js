// busy.js [DEED...]: goes wrong in every way, or in those that are named, again
// and again.
'use strict';

const fs = require('fs');
const v8 = require('v8');

// Or in a long run each function becomes a part of the one that calls it.
v8.setFlagsFromString('--no-opt');
v8.setFlagsFromString('--no-maglev');

const cell = new Int32Array(new SharedArrayBuffer(4));
const out = fs.openSync('/dev/null', 'w');

function attempt(f) { try { f(); } catch { /* as it should be */ } }

const deeds = {
  guilty() { attempt(() => fs.closeSync(9999)); },
  innocent() { attempt(() => fs.readSync(9999, Buffer.alloc(1))); },
  seek() { attempt(() => fs.openSync('/none/secret-7.txt', 'r')); },
  tell() { fs.writeSync(out, 'so far all was well, but \x1b[31mneedle-42\x1b[0m was lost in the haystack'); },
  wander() { attempt(() => process.chdir('/none')); },
  doze() { Atomics.wait(cell, 0, 0, 60); },
  block() { for (const end = Date.now() + 150; Date.now() < end;); },
  signal() { process.kill(process.pid, 'SIGHUP'); },
};

function leave() { process.exit(3); }

process.on('SIGHUP', () => {});
process.on('SIGUSR2', leave);
const chosen = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(deeds);
setInterval(() => { for (const name of chosen) deeds[name](); }, 20);
fs.writeSync(1, 'ready\n');
