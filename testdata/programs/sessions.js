// sessions.js COUNT LATER: at SIGUSR2, asks itself for /1/1 to /COUNT/5 by HTTP/2, in COUNT sessions, each begun as
// soon as the one before is to close. Every third session's requests are not answered: once all have come,
// the client destroys the session, or if its number is even the server does. In one more session it asks for
// /held, which is not answered, then for /later/1 to /later/LATER, and destroys it. It then prints "asked".
'use strict';

const http2 = require('http2');
const { say, ready } = require('./lib/ready');

const requests = 5; // of each session
const server = http2.createServer();
let client; // the current session's
let unanswered = 0; // its requests
let served; // the server's side of it

server.on('session', (session) => { served = session; });
server.on('stream', (stream, fields) => {
  const [, name] = fields[':path'].split('/');
  const number = Number(name);
  stream.on('error', () => {});
  if (name === 'held') return;
  if (name === 'later' || number % 3) {
    stream.respond({ ':status': 200 });
    stream.end('answer');
  } else if (++unanswered === requests) {
    unanswered = 0;
    (number % 2 ? client : stream.session).destroy();
  }
});

function ask(path) {
  return new Promise((resolve) => {
    const request = client.request({ ':path': path });
    request.on('close', resolve);
    request.on('error', () => {});
    request.resume();
  });
}

function connect() {
  client = http2.connect(`http://127.0.0.1:${server.address().port}`);
  client.on('error', () => {});
}

async function run() {
  const [sessions, later] = process.argv.slice(2).map(Number);
  for (let n = 1; n <= sessions; n++) {
    connect();
    await Promise.all(Array.from({ length: requests }, (_, i) => ask(`/${n}/${i + 1}`)));
    client.close();
  }
  connect();
  const held = ask('/held');
  for (let i = 1; i <= later; i++) await ask(`/later/${i}`);
  const ended = [served, client].map((session) => new Promise((resolve) => session.once('close', resolve)));
  client.destroy();
  await Promise.all([held, ...ended]);
  say('asked');
}

server.listen(0, '127.0.0.1', () => {
  process.once('SIGUSR2', run);
  ready({ port: server.address().port });
});
