'use strict';
// On SIGUSR2, touches fresh pages of memory and waits, each a prime number of times, and
// prints how many faults and switches the kernel counted meanwhile.

const { ready, say } = require('./lib/ready');

const pageSize = 4096;
const pages = 7919;
const waits = 211;
const word = new Int32Array(new SharedArrayBuffer(4));

function touch(bytes) {
  for (let i = 0; i < bytes.length; i += pageSize) bytes[i] = 1;
}

function rest(times) {
  for (let i = 0; i < times; i++) Atomics.wait(word, 0, 0, 1);
}

// counted returns what the kernel counted during a call.
function counted(call) {
  const before = process.resourceUsage();
  call();
  const after = process.resourceUsage();
  const grown = (...names) => names.reduce((sum, name) => sum + after[name] - before[name], 0);
  return {
    faults: grown('minorPageFault', 'majorPageFault'),
    switches: grown('voluntaryContextSwitches', 'involuntaryContextSwitches'),
  };
}

process.on('SIGUSR2', () => {
  const bytes = Buffer.allocUnsafeSlow(pages * pageSize);
  const { faults } = counted(() => touch(bytes));
  const { switches } = counted(() => rest(waits));
  say('done', { pages, faults, waits, switches });
});
setInterval(() => {}, 1e9);
ready();
