// A server of npm's restify. On SIGUSR2 it is asked for a page 20 times, and "done" is printed.
//
// usage: node restify.js PACKAGES
'use strict';
process.env.NODE_DTRACE_PROVIDER_REQUIRE = 'hard';
const http = require('http');
const path = require('path');
const TIMES = 20;
const server = require(path.join(process.argv[2], 'node_modules', 'restify')).createServer({ name: 'shop', dtrace: true });
server.get('/items/:id', (req, res, next) => {
  res.send(Number(req.params.id) % 2 ? 200 : 404, {});
  return next();
});

function ask(n) {
  if (n === TIMES) {
    console.log('done');
    return;
  }
  http.get({ port: server.address().port, path: `/items/${n}` }, (res) => res.resume().on('end', () => ask(n + 1)));
}
process.on('SIGUSR2', () => ask(0));
server.listen(0, '127.0.0.1', () => console.log('ready'));
