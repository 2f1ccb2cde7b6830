// talks.js: at SIGUSR2 it writes to a server of any protocol. Its arguments are the port and JSON: for each
// connection what is written, in pieces. It prints "talked" when all are closed.
'use strict';

const net = require('net');
const { ready } = require('./lib/ready');

const [port, texts] = [+process.argv[2], JSON.parse(process.argv[3])];

async function talk(pieces) {
  const socket = net.connect(port, '127.0.0.1');
  socket.resume();
  for (const piece of pieces) await new Promise((resolve) => socket.write(piece, resolve));
  await new Promise((resolve) => socket.on('close', resolve).end());
}

process.on('SIGUSR2', async () => {
  for (const pieces of texts) await talk(pieces);
  console.log('talked');
});
setInterval(() => {}, 1 << 30);
ready();
