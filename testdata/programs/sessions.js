// sessions.js COUNT: at SIGUSR2, asks itself for /1/1 to /COUNT/5 by HTTP/2, in COUNT sessions, each begun as
// soon as the one before is to close. It then prints "asked".
'use strict';

const http2 = require('http2');
const { say, ready } = require('./lib/ready');

const requests = 5; // of each session
const server = http2.createServer();

server.on('stream', (stream) => {
  stream.respond({ ':status': 200 });
  stream.end('answer');
});

function ask(session, path) {
  return new Promise((resolve, reject) => {
    const request = session.request({ ':path': path });
    request.on('close', resolve);
    request.on('error', reject);
    request.resume();
  });
}

async function run() {
  for (let n = 1; n <= Number(process.argv[2]); n++) {
    const session = http2.connect(`http://127.0.0.1:${server.address().port}`);
    await Promise.all(Array.from({ length: requests }, (_, i) => ask(session, `/${n}/${i + 1}`)));
    session.close();
  }
  say('asked');
}

server.listen(0, '127.0.0.1', () => {
  process.once('SIGUSR2', run);
  ready({ port: server.address().port });
});
