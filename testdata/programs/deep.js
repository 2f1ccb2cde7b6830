// deep.js N: calls itself N deep and spins at the bottom, in the function bottom.
'use strict';

const { ready } = require('./lib/ready');

function bottom() {
  ready({ pid: process.pid });
  for (let x = 1; ;) {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
  }
}

function descend(n) {
  if (n > 1) descend(n - 1);
  else bottom();
  return n; // no tail call
}

descend(Number(process.argv[2] || 100));
