// connections.js: TCP connections that end in all ways. At SIGUSR2, one after the other, the function
//   closeHere     ends a connection to a server of its own, which answers by ending it too
//   closeThere    has the server end a connection first
//   resetThere    has the server reset a connection
//   resetHere     resets a connection
//   refused       connects to a port where nobody listens
//   fill          writes to a server that does not read, until so much waits, and waits for 1.5 s
// It then prints the local ports of the clients by the function, as JSON. Every connection is of one process: both of its ends are.
//
// connections.js PORT: at SIGUSR2, connects four times to that port, and leaves the connections open.
'use strict';

const net = require('net');
const { say, ready } = require('./lib/ready');

const UNREAD = 8 << 20;
const host = '127.0.0.1';
const ports = {};
let behave, full;

const server = net.createServer({ allowHalfOpen: true }, (socket) => {
  socket.on('error', () => {});
  behave(socket);
});

function reset(socket) {
  if (socket.resetAndDestroy) socket.resetAndDestroy(); else socket._handle.reset(() => socket.destroy());
}

// client connects, and calls connected with the socket and done when it is closed.
function client(name, connected) {
  return new Promise((done) => {
    const socket = net.connect(server.address().port, host, () => {
      ports[name] = socket.localPort;
      connected(socket);
    });
    socket.on('error', () => {}).on('close', done).resume();
  });
}

function closeHere() {
  behave = (socket) => socket.on('end', () => socket.end()).resume();
  return client('closeHere', function closeHereNow(socket) { socket.destroy(); });
}

function closeThere() {
  behave = (socket) => socket.resume().end();
  return client('closeThere', () => {});
}

function resetThere() {
  behave = function resetThereNow(socket) { reset(socket); };
  return client('resetThere', () => {});
}

function resetHere() {
  behave = (socket) => socket.resume();
  return client('resetHere', function resetHereNow(socket) { reset(socket); });
}

function refused() {
  return new Promise((done) => net.connect(1, host).on('error', done));
}

function fill() {
  behave = (socket) => { socket.pause(); full = socket; };
  return client('fill', (socket) => {
    socket.write(Buffer.alloc(UNREAD));
    setTimeout(() => { full.resume(); socket.destroy(); full.destroy(); }, 1500);
  });
}

process.on('SIGUSR2', async () => {
  if (process.argv[2]) {
    for (let i = 0; i < 4; i++) net.connect(Number(process.argv[2]), host).on('error', () => {});
    return;
  }
  for (const f of [closeHere, closeThere, resetThere, resetHere, refused, fill]) await f();
  setTimeout(() => say('connected', ports), 100);
});

server.listen(0, host, () => ready({ server: server.address().port }));
