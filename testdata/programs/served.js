// served.js: HTTP servers that log every request. Its argument is JSON: log, a file for the log;
// tls, a folder with key.pem and cert.pem, for servers with TLS, of HTTP/1 and of HTTP/2; socket, the path of a Unix socket;
// shared, for a server that reads the first bytes itself; lenient, for servers whose parser is; forgiving, for servers that keep connections with errors; workers, threads that serve; children, processes of a cluster that do. It is ready with the ports,
// one for each thread, and the PIDs. At SIGUSR2 each process writes its log, an array in JSON, to the
// file, to which it adds its PID, and the first prints "logged". Times are process.hrtime's.
'use strict';

const cluster = require('cluster');
const fs = require('fs');
const http = require('http');
const http2 = require('http2');
const https = require('https');
const net = require('net');
const path = require('path');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { ready } = require('./lib/ready');

const options = isMainThread ? JSON.parse(process.argv[2]) : workerData;
const now = () => String(process.hrtime.bigint());
const log = [];

// How long answers are, in bytes, and what is in a chunk that looks like the end of all.
const large = 100000;
const huge = 32 << 20;
const tricky = 'some data\r\n0\r\n\r\n';

const answers = {
  hello: (q, r) => r.end('hello world'),
  empty: (q, r) => { r.statusCode = 204; r.end(); },
  missing: (q, r) => { r.statusCode = 404; r.end('missing'); },
  failed: (q, r) => { r.statusCode = 500; r.end('failed'); },
  large: (q, r) => r.end('x'.repeat(large)),
  huge: (q, r) => r.end('x'.repeat(huge)),
  chunks: (q, r) => { r.write(tricky); r.write(tricky); r.end('end'); },
  corked: (q, r) => { r.cork(); for (let i = 0; i < 5; i++) r.write(tricky); r.uncork(); r.end(); },
  many: (q, r) => { for (let i = +q.url.split('/')[2]; i; i--) r.write(tricky); r.end('end'); },
  later: (q, r) => setTimeout(() => r.end('later'), 2),
  slowly: (q, r) => { r.write('a'); setTimeout(() => r.end('b'), 2); },
  trailer: (q, r) => { r.setHeader('Trailer', 'X-Sum'); r.write('body'); r.addTrailers({ 'X-Sum': '1' }); r.end(); },
  close: (q, r) => { r.setHeader('Connection', 'close'); r.end('closed'); },
  posted: (q, r) => { let n = 0; q.on('data', (d) => { n += d.length; }); q.on('end', () => r.end(String(n))); },
  early: (q, r) => { r.writeProcessing(); r.end('early'); },
  work: (q, r) => { for (let n = turns(); n; n--) spin(); r.end('worked'); },
  asks: (q, r) => http.get({ port: q.socket.localPort, path: '/hello/asked' + q.url }, (a) => a.on('end', () => r.end('asked')).resume()),
  reads: (q, r) => { q.socket.on('data', () => {}); r.end('reads'); },
  never: () => {},
  blocked: (q, r) => { fs.readFileSync(q.url.slice('/blocked'.length)); writeTurns(r, 3); },
  destroy: (q) => q.socket.destroy(),
};

// writeTurns writes in so many turns, without an event in between.
function writeTurns(r, turns) {
  r.on('error', () => {});
  r.write('a');
  if (turns > 1) process.nextTick(() => process.nextTick(() => writeTurns(r, turns - 1)));
}

// spin is a little work, of which turns() is about a millisecond.
const spun = new Float64Array(256);
function spin() { for (let i = 0; i < spun.length; i++) spun[i] = Math.sqrt(spun[i] + i); }
let measured = 0;
function turns() {
  if (measured) return measured;
  let n = 0;
  for (const end = process.hrtime.bigint() + 100000000n; process.hrtime.bigint() < end; n++) spin();
  measured = Math.ceil(n / 100);
  return measured;
}

function serve(q, r) {
  const entry = { url: q.url, method: q.method, port: q.socket.remotePort, begin: now(), pid: process.pid };
  entry.thread = isMainThread ? 0 : require('worker_threads').threadId;
  log.push(entry);
  if (q.headers.expect) r.writeContinue(); // is not node's to do, which would do it before the log begins
  r.on('finish', () => { entry.finish = now(); });
  const end = r.end;
  r.end = (...args) => {
    entry.before = now();
    end.apply(r, args);
    entry.status = r.statusCode;
  };
  const name = q.url.split(/[/?]/)[1];
  (answers[name] || answers.hello)(q, r);
}

function upgrade(q, socket) {
  socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: test\r\nConnection: Upgrade\r\n\r\n');
  socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'); // is not HTTP any more
  socket.on('data', () => socket.end());
}

// Answers CONNECT, and is what it connects to itself.
function connect(q, socket) {
  socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
  this.emit('connection', socket);
}

// Reads the first bytes of a connection, as for a port with several protocols, and has the server do the rest.
function pass(socket, server) {
  socket.once('data', (first) => {
    socket.pause();
    socket.unshift(first);
    server.emit('connection', socket);
    socket.resume();
  });
}

// Returns the servers' ports when all listen.
function listen() {
  const limits = { keepAliveTimeout: 60000, maxHeaderSize: 1 << 14, insecureHTTPParser: options.lenient };
  const servers = [[http.createServer(limits, serve), [0, '127.0.0.1']], [http.createServer(limits, serve), [0, '::1']]];
  if (options.socket && isMainThread && !cluster.isWorker) servers.push([http.createServer(serve), [options.socket]]);
  if (options.tls) {
    const [key, cert] = ['key.pem', 'cert.pem'].map((name) => fs.readFileSync(path.join(options.tls, name)));
    servers.push([https.createServer({ ...limits, key, cert }, serve), [0, '127.0.0.1']]);
    servers.push([http2.createSecureServer({ key, cert }, serve), [0, '127.0.0.1']]);
  }
  if (options.shared) servers.push([net.createServer((socket) => pass(socket, servers[0][0])), [0, '127.0.0.1']]);
  return Promise.all(servers.map(([server, where]) => new Promise((resolve) => {
    server.on('upgrade', upgrade);
    if (!options.tls) server.on('connect', connect);
    if (options.forgiving) server.on('clientError', (e, socket) => socket.write('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n'));
    server.on('checkContinue', serve);
    server.keepAliveTimeout = 60000;
    server.listen(...where, () => resolve(server.address().port || 0));
  })));
}

function write(entries) {
  fs.writeFileSync(`${options.log}.${process.pid}`, JSON.stringify(entries));
}

async function main() {
  const ports = [];
  const pids = [process.pid];
  const threads = [];
  if (options.children && !cluster.isWorker) {
    for (let i = 0; i < options.children; i++) {
      const child = cluster.fork();
      pids.push(child.process.pid);
      ports[0] = await new Promise((resolve) => child.once('message', resolve));
    }
    process.on('SIGUSR2', () => {
      let left = options.children;
      for (const child of Object.values(cluster.workers)) {
        child.once('message', () => { if (!--left) console.log('logged'); });
        child.send('log');
      }
    });
    ready({ ports, pids });
    return;
  }
  for (let i = 0; i < (options.workers || 0); i++) {
    const thread = new Worker(__filename, { workerData: options });
    threads.push(thread);
    ports.push(await new Promise((resolve) => thread.once('message', resolve)));
  }
  if (!options.workers) ports.push(await listen());
  if (cluster.isWorker) {
    process.on('message', () => { write(log); process.send('logged'); });
    process.send(ports[0]);
    return;
  }
  process.on('SIGUSR2', async () => {
    const logs = await Promise.all(threads.map((thread) => {
      thread.postMessage('log');
      return new Promise((resolve) => thread.once('message', resolve));
    }));
    write(log.concat(...logs));
    console.log('logged');
  });
  ready({ ports, pids });
}

if (isMainThread) {
  main();
} else {
  parentPort.on('message', () => parentPort.postMessage(log));
  listen().then((ports) => parentPort.postMessage(ports));
}
