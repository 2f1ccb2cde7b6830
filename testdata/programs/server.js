// server.js: an HTTP server that answers GET /WAY/N with the square of N, which
// it finds in one of these ways: "heap" by objects on a heap that holds and
// drops them, "child" by a child process, "worker" by a worker thread, "file" by
// a file that the thread pool writes and reads. GET /end ends it.
'use strict';

const { execFile } = require('child_process');
const fs = require('fs');
const http = require('http');
const os = require('os');
const path = require('path');
const { Worker, isMainThread, parentPort } = require('worker_threads');
const { ready } = require('./lib/ready');

const window = 64; // answers whose objects stay on the heap
const workers = 2;
const kept = [];

function byHeap(n, done) {
  const rows = [];
  for (let i = 0; i < n; i++) rows.push({ i, row: new Array(n).fill(1) });
  kept[n % window] = rows;
  done(null, rows.reduce((sum, { row }) => sum + row.length, 0));
}

function byChild(n, done) {
  execFile('/bin/sh', ['-c', `echo $((${n} * ${n}))`], (err, out) => done(err, Number(out)));
}

function byFile(n, done) {
  const file = path.join(os.tmpdir(), `square-${process.pid}-${n}-${Math.random()}`);
  fs.writeFile(file, String(n * n), (err) => {
    if (err) return done(err);
    fs.readFile(file, 'utf8', (readErr, text) => fs.unlink(file, (e) => done(readErr || e, Number(text))));
  });
}

function pool() {
  const waiting = new Map();
  let last = 0;
  const all = Array.from({ length: workers }, () => {
    const worker = new Worker(__filename);
    worker.on('message', ([id, square]) => {
      waiting.get(id)(null, square);
      waiting.delete(id);
    });
    return worker;
  });
  return (n, done) => {
    waiting.set(++last, done);
    all[last % workers].postMessage([last, n]);
  };
}

function serve() {
  const ways = { heap: byHeap, child: byChild, file: byFile, worker: pool() };
  const server = http.createServer((request, response) => {
    const [, way, n] = request.url.split('/');
    if (way === 'end') {
      response.end('end', () => process.exit(0));
      return;
    }
    ways[way](Number(n), (err, square) => {
      if (err) response.statusCode = 500;
      response.end(String(err || square));
    });
  });
  server.listen(0, '127.0.0.1', () => ready({ port: server.address().port }));
}

if (isMainThread) {
  serve();
} else {
  parentPort.on('message', ([id, n]) => {
    byHeap(n, (_, square) => parentPort.postMessage([id, square]));
  });
}
