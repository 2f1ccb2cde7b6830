// operations.js: at SIGUSR2 looks up names, also at a DNS server of its own, uses files, connects, compresses and encrypts, and prints
// "operated" with all operations in JSON: what each is called, what it is on, its error, and
// process.hrtime's times before its call and in its callback. Its argument is a folder for files and a
// socket.
'use strict';

const crypto = require('crypto');
const dgram = require('dgram');
const dns = require('dns');
const fs = require('fs');
const net = require('net');
const path = require('path');
const zlib = require('zlib');
const { say, ready } = require('./lib/ready');

const folder = process.argv[2];
const socket = path.join(folder, 'socket');
const log = [];
const now = () => String(process.hrtime.bigint());

function operate(what, on, call) {
  return new Promise((resolve) => {
    const entry = { what, on, begin: now() };
    call((error) => {
      entry.end = now();
      entry.error = error ? error.code : '';
      log.push(entry);
      resolve();
    });
  });
}

function connect(where, on) {
  return operate('connect', on, (done) => {
    const s = net.connect(where);
    s.on('connect', () => { done(); s.destroy(); });
    s.on('error', done);
  });
}

// answer answers a DNS query (RFC 1035, 4.1): names of .test exist, and have the address 127.0.0.9.
function answer(query) {
  const exists = query.includes('\x04test\0');
  const question = query.subarray(12, query.indexOf(0, 12) + 5);
  const hasAddress = exists && question[question.length - 3] === 1;
  const head = Buffer.from([query[0], query[1], 0x81, exists ? 0x80 : 0x83, 0, 1, 0, hasAddress ? 1 : 0, 0, 0, 0, 0]);
  const address = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 9]);
  return Buffer.concat(hasAddress ? [head, question, address] : [head, question]);
}

async function resolve() {
  const server = dgram.createSocket('udp4');
  server.on('message', (query, from) => server.send(answer(query), from.port, from.address));
  await new Promise((bound) => { server.bind(0, '127.0.0.1', bound); });
  const resolver = new dns.Resolver();
  resolver.setServers([`127.0.0.1:${server.address().port}`]);
  await operate('dns.resolve4', 'some.test', (done) => resolver.resolve4('some.test', done));
  await operate('dns.resolve6', 'some.test', (done) => resolver.resolve6('some.test', done));
  await operate('dns.resolveMx', 'nonesuch.invalid', (done) => resolver.resolveMx('nonesuch.invalid', done));
  await operate('dns.reverse', '192.0.2.7', (done) => resolver.reverse('192.0.2.7', done));
  await operate('dns.reverse', '2001:db8::7', (done) => resolver.reverse('2001:db8::7', done));
  server.close();
}

async function all(port, closed) {
  const file = path.join(folder, 'file');
  await operate('dns.lookup', 'localhost', (done) => dns.lookup('localhost', done));
  await operate('dns.lookup', 'nonesuch.invalid', (done) => dns.lookup('nonesuch.invalid', done));
  await operate('dns.lookupService', '127.0.0.1', (done) => dns.lookupService('127.0.0.1', 22, done));
  await resolve();
  await connect({ port, host: '127.0.0.1' }, `127.0.0.1:${port}`);
  await connect({ port: closed, host: '127.0.0.1' }, `127.0.0.1:${closed}`);
  await connect({ path: socket }, socket);
  await connect({ path: '\0ustack-none' }, '@ustack-none');
  await operate('fs.stat', `${file}\u001b[2J`, (done) => fs.stat(`${file}\u001b[2J`, done));
  let fd;
  await operate('fs.open', file, (done) => fs.open(file, 'w', (error, opened) => { fd = opened; done(error); }));
  await operate('fs.write', `fd ${fd}`, (done) => fs.write(fd, 'text', done));
  await operate('fs.close', `fd ${fd}`, (done) => fs.close(fd, done));
  await operate('fs.mkdir', folder, (done) => fs.mkdir(folder, done));
  if (parseInt(process.versions.node) >= 26) { // in others, these are several operations
    await operate('fs.writeFile', file, (done) => fs.writeFile(file, 'text', done));
    await operate('fs.writeFile', folder, (done) => fs.writeFile(folder, 'text', done));
    await operate('fs.readFile', file, (done) => fs.readFile(file, done));
    await operate('fs.readFile', `${file}none`, (done) => fs.readFile(`${file}none`, done));
  }
  await operate('zlib', '', (done) => zlib.deflateRaw(Buffer.alloc(1 << 16), done));
  await operate('crypto.PBKDF2', '', (done) => crypto.pbkdf2('a', 'b', 20000, 20, 'sha1', done));
  await operate('random', '', (done) => crypto.randomBytes(1 << 10, done));
  say('operated', log);
}

const closing = net.createServer().listen(0, '127.0.0.1', () => {
  const closed = closing.address().port;
  closing.close(() => {
    net.createServer().listen(socket, () => {
      const server = net.createServer().listen(0, '127.0.0.1', () => {
        process.on('SIGUSR2', () => all(server.address().port, closed));
        ready();
      });
    });
  });
});
