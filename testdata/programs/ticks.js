// ticks.js: a timer of 1 ms that records its longest gap: how long the process
// was held up. On SIGUSR2 it prints the gap since the last time, and the ticks.
'use strict';

const { performance } = require('perf_hooks');
const { ready, say } = require('./lib/ready');

const seen = { last: 0, longest: 0, ticks: 0 };

function tick() {
  const now = performance.now();
  seen.longest = Math.max(seen.longest, now - seen.last);
  seen.last = now;
  seen.ticks++;
}

process.on('SIGUSR2', () => {
  tick();
  say('gap', { milliseconds: seen.longest, ticks: seen.ticks });
  Object.assign(seen, { longest: 0, ticks: 0 });
});
seen.last = performance.now();
setInterval(tick, 1);
ready({ pid: process.pid });
