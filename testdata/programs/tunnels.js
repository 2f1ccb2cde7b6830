// tunnels.js: asks through tunnels at SIGUSR2. Its argument is JSON: origin and secure, servers without and with
// TLS; proxy, the port of a proxy; and count. For each it asks secure in a tunnel of its own, and then origin by a new
// connection. Prints "asked" when all connections are closed.
'use strict';

const http = require('http');
const https = require('https');
const tls = require('tls');
const { say, ready } = require('./lib/ready');

process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
process.removeAllListeners('warning');
const options = JSON.parse(process.argv[2]);

const closed = (socket) => new Promise((resolve) => socket.once('close', resolve));

// get resolves when the connection is closed.
function get(client, url, agent) {
  return new Promise((resolve, reject) => {
    const q = client.get(url, { agent, headers: { Connection: 'close' } }, (r) => {
      const end = closed(r.socket);
      r.resume();
      r.on('end', () => resolve(end));
    });
    q.on('error', reject);
  });
}

function tunnel(n) {
  return new Promise((resolve, reject) => {
    const q = http.request({ host: '127.0.0.1', port: options.proxy, method: 'CONNECT', path: new URL(options.secure).host, agent: false });
    q.on('connect', (r, socket) => {
      const agent = new https.Agent();
      agent.createConnection = () => tls.connect({ socket });
      const end = closed(socket);
      get(https, `${options.secure}/sized?tunnel${n}`, agent).then(() => end).then(resolve, reject);
    });
    q.on('error', reject);
    q.end();
  });
}

process.once('SIGUSR2', async () => {
  for (let n = 0; n < options.count; n++) {
    await tunnel(n);
    await get(http, `${options.origin}/sized?plain${n}`, new http.Agent());
  }
  say('asked');
});
setInterval(() => {}, 1 << 30);
ready();
