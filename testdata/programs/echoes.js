// echoes.js: an HTTP server that asks itself for /echo a hundred times a second. At SIGUSR2 it prints
// "echoed" after the next fifty.
'use strict';

const http = require('http');
const { say, ready } = require('./lib/ready');

const server = http.createServer((q, r) => r.end('echo')).listen(0, '127.0.0.1', () => {
  const agent = new http.Agent({ keepAlive: true });
  let left = 0;
  process.on('SIGUSR2', () => { left = 50; });
  setInterval(() => {
    http.get({ port: server.address().port, path: '/echo', agent }, (r) => {
      r.resume();
      if (left && !--left) say('echoed');
    }).on('error', () => {});
  }, 10);
  ready();
});
