// asks.js: makes HTTP requests at SIGUSR2. Its argument is JSON: origins and http2, the servers to ask; rounds;
// agents, how many connections to each; and worker, whether a worker thread is to make them. Each request has a target of its own, whose path says what
// the server is to answer. It then prints "asked" with all requests in JSON: url, method, status, host,
// the local port if it is known, and process.hrtime's time before and after.
'use strict';

const http = require('http');
const http2 = require('http2');
const https = require('https');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { say, ready } = require('./lib/ready');

process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
process.removeAllListeners('warning');
const options = isMainThread ? JSON.parse(process.argv[2]) : workerData;
const now = () => String(process.hrtime.bigint());
const log = [];

const kinds = [
  ['GET', '/sized'], ['GET', '/chunked'], ['HEAD', '/sized'], ['GET', '/empty'], ['GET', '/failed'],
  ['POST', '/posted', 'x'.repeat(5000)], ['GET', '/large'], ['GET', '/pieces'], ['GET', '/hints'],
  ['GET', '/close'], ['GET', `/sized/${'u'.repeat(1800)}`], ['PUT', '/posted', 'short'],
  ['GET', '/sized', undefined, { cookie: 'c='.repeat(3000) }],
];

function byRequest(origin, agent, [method, , body, headers], target) {
  return new Promise((resolve, reject) => {
    const entry = { url: target, method, host: new URL(origin).host, begin: now() };
    const q = (origin.startsWith('https') ? https : http).request(origin + target, { method, agent, headers }, (r) => {
      entry.port = r.socket.localPort;
      entry.status = r.statusCode;
      r.resume();
      r.on('end', () => { entry.end = now(); log.push(entry); resolve(); });
    });
    q.on('error', reject);
    if (body && method === 'PUT') { q.write(body); q.end(); } else q.end(body);
  });
}

async function byFetch(origin, [method, , body, headers], target) {
  const entry = { url: target, method, host: new URL(origin).host, port: 0, begin: now() };
  const r = await fetch(origin + target, { method, body, headers });
  await r.text();
  entry.status = r.status;
  entry.end = now();
  log.push(entry);
}

function byHttp2(origin, session, [method, , body, headers], target) {
  return new Promise((resolve, reject) => {
    const entry = { url: target, method, host: new URL(origin).host, port: 0, begin: now() };
    const q = session.request({ ':method': method, ':path': target, ...headers });
    q.on('response', (fields) => { entry.status = fields[':status']; });
    q.on('end', () => { entry.end = now(); log.push(entry); resolve(); });
    q.on('error', reject);
    q.resume();
    q.end(body);
  });
}

async function overHttp2(origin, n) {
  const session = http2.connect(origin);
  const waiting = [];
  for (let round = 0; round < options.rounds; round++) {
    for (const [kind, request] of kinds.entries()) {
      const path = request[1];
      if (path === '/close' || path === '/hints') continue;
      waiting.push(byHttp2(origin, session, request, `${path}?${new URL(origin).port}.${n}.${round}.${kind}.http2`));
    }
  }
  await Promise.all(waiting);
  session.close();
}

async function one(origin, n) {
  const agent = new (origin.startsWith('https') ? https : http).Agent({ keepAlive: true, maxSockets: 1 });
  for (let round = 0; round < options.rounds; round++) {
    for (const [kind, request] of kinds.entries()) {
      const unique = `${request[1]}?${new URL(origin).port}.${n}.${round}.${kind}`;
      await byRequest(origin, agent, request, `${unique}.request`);
      if (typeof fetch === 'function') await byFetch(origin, request, `${unique}.fetch`);
    }
  }
  agent.destroy();
}

async function ask() {
  const all = [];
  for (const origin of options.origins) for (let n = 0; n < options.agents; n++) all.push(one(origin, n));
  for (const origin of options.http2 || []) for (let n = 0; n < options.agents; n++) all.push(overHttp2(origin, n));
  await Promise.all(all);
  return log;
}

function report(requests) {
  say('asked', requests);
  process.exit();
}

if (!isMainThread) {
  parentPort.once('message', async () => parentPort.postMessage(await ask()));
} else if (options.worker) {
  const worker = new Worker(__filename, { workerData: options });
  worker.once('message', report);
  worker.once('online', ready);
  process.once('SIGUSR2', () => worker.postMessage('ask'));
} else {
  process.once('SIGUSR2', async () => report(await ask()));
  setInterval(() => {}, 1 << 30);
  ready();
}
