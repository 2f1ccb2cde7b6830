// idles.js: works and waits by turns. At SIGUSR2 it prints "idled" with the times of
// performance.eventLoopUtilization() in ns, and then stops itself: until it is continued, its event
// loop neither waits nor works.
'use strict';

const { performance } = require('perf_hooks');
const { say, ready } = require('./lib/ready');

process.on('SIGUSR2', () => {
  const { idle, active } = performance.eventLoopUtilization();
  say('idled', { idle: Math.round(idle * 1e6), active: Math.round(active * 1e6) });
  process.kill(process.pid, 'SIGSTOP');
});

function turn(n) {
  const end = process.hrtime.bigint() + BigInt(n % 7) * 1000000n;
  while (process.hrtime.bigint() < end);
  setTimeout(turn, n % 5, n + 1);
}
turn(0);
setTimeout(ready, 50);
