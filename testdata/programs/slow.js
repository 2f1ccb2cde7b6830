// slow.js FIRST MORE: looks a name up, FIRST times at once when it is sent SIGUSR2,
// and MORE times when it is sent it again. It says "asked" when all of these have
// been handed over, and "done" with the number of those that failed when all have
// ended.
'use strict';

const dns = require('dns');
const { ready, say } = require('./lib/ready');

const [first, more] = process.argv.slice(2).map(Number);
const awake = setInterval(() => {}, 1 << 30); // signals alone keep no process alive
let left = first + more;
let failed = 0;

function ask(times) {
  for (let i = 0; i < times; i++) {
    dns.lookup('localhost', (error) => {
      if (error) failed++;
      if (--left > 0) return;
      say('done', { failed });
      clearInterval(awake);
    });
  }
  say('asked', { times });
}

process.once('SIGUSR2', () => {
  process.once('SIGUSR2', () => ask(more));
  ask(first);
});
ready({ pid: process.pid });
