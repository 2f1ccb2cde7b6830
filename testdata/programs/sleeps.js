// sleeps.js: sleeps most of the time, and wakes for a timer and for datagrams that another
// process sends at random. Both take the same time. At SIGTERM it prints the percentage that
// the timer took, by the clock.
'use strict';

const { fork } = require('child_process');
const dgram = require('dgram');
const { ready, say } = require('./lib/ready');

const spent = { timer: 0n, answer: 0n };

function busy(kind) {
  const began = process.hrtime.bigint();
  while (process.hrtime.bigint() - began < 300_000n);
  spent[kind] += process.hrtime.bigint() - began;
}

function timer() {
  busy('timer');
  setTimeout(timer, 10);
}

function answer() {
  busy('answer');
}

// send sends datagrams, 100 a second on average, until there is no receiver.
function send(port) {
  const socket = dgram.createSocket('udp4');
  process.on('disconnect', () => process.exit());
  (function next() {
    socket.send('.', port, '127.0.0.1');
    setTimeout(next, -10 * Math.log(Math.random()));
  })();
}

function receive() {
  const socket = dgram.createSocket('udp4');
  socket.on('message', answer);
  socket.bind(0, '127.0.0.1', () => {
    fork(__filename, [String(socket.address().port)], { execArgv: [] });
    timer();
    ready();
  });
  process.on('SIGTERM', () => {
    say('timer', (100 * Number(spent.timer)) / Number(spent.timer + spent.answer));
    process.exit();
  });
}

if (process.argv[2]) send(Number(process.argv[2]));
else receive();
