'use strict';
// A server of sessions that leaks: each session listens for news on a bus that lives
// as long as the program, and nobody takes its listener away when the session ends.
// It serves 1000 sessions, says "ready", with what it knows of itself as JSON, and
// stays. On SIGUSR2 it aborts, with its functions on the stack.

const { EventEmitter } = require('events');

class Request {
  constructor(number) {
    this.url = `/orders/${number}`;
    this.headers = { host: 'shop.example', accept: 'text/html', 'x-request-id': `r-${number}` };
    this.body = Buffer.from(`order=${number}&quantity=${number % 7}`);
  }
}

class Session {
  constructor(bus, request) {
    this.id = request.headers['x-request-id'];
    this.request = request;
    this.started = new Date(1e12 + request.body.length);
    bus.on('news', (text) => { this.latest = { text, at: Date.now() }; });
  }

  close() {
    this.closed = true; // and that is all: the listener stays
  }
}

class Server {
  constructor(name) {
    this.name = name;
    this.bus = new EventEmitter();
    this.bus.setMaxListeners(0);
    this.open = new Set();
    this.served = 0;
  }

  handle(number) {
    const session = new Session(this.bus, new Request(number));
    this.open.add(session);
    this.served++;
    this.open.delete(session);
    session.close();
    return session.id;
  }
}

const server = new Server('orders');
const sessions = 1000;
for (let i = 0; i < sessions; i++) server.handle(i);

function giveUp(server, reason) {
  process.abort(); // leaves a core where the system is set up for one
  return [server, reason];
}

process.on('SIGUSR2', function onSignal() {
  giveUp(server, 'told to');
});
globalThis.server = server;
setInterval(function tick() { server.name.trim(); }, 60e3);
console.log('ready ' + JSON.stringify({ sessions, pid: process.pid, version: process.version }));
