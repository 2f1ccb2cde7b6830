// web.js: a server of HTTP and HTTPS under load. Its answers take what servers do:
// files, JSON, compression and cryptography, on the main thread and in the thread
// pool. A process of its own asks, over and over, until the server ends.
'use strict';

const { fork } = require('child_process');
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const https = require('https');
const os = require('os');
const path = require('path');
const zlib = require('zlib');
const { ready } = require('./lib/ready');

const asking = 8; // requests at a time, for each protocol
const key = Buffer.alloc(32, 1);
const rows = Array.from({ length: 200 }, (_, i) => ({ i, name: `row ${i}`, on: i % 2 === 0 }));
const text = JSON.stringify(rows);
const bytes = Buffer.from(text.repeat(8));

// A key that both sides know takes no certificate. Each cipher has assembly of its own.
const shared = { pskCallback: () => ({ psk: key, identity: 'web' }), maxVersion: 'TLSv1.2', checkServerIdentity() {} };
const ciphers = ['PSK-AES128-GCM-SHA256', 'ECDHE-PSK-CHACHA20-POLY1305', 'PSK-AES256-CBC-SHA384'];
const pairs = ['P-256', 'P-384'].map((namedCurve) => crypto.generateKeyPairSync('ec', { namedCurve }));
pairs.push(crypto.generateKeyPairSync('rsa', { modulusLength: 2048 }), crypto.generateKeyPairSync('ed25519'));

function cipher(name) {
  const c = crypto.createCipheriv(name, key.subarray(0, name.includes('128') ? 16 : 32), Buffer.alloc(/cbc|ctr/.test(name) ? 16 : 12));
  return Buffer.concat([c.update(bytes), c.final()]);
}

const ways = {
  json: (done) => done(null, JSON.stringify(JSON.parse(text).map((row) => ({ ...row, i: row.i + 1 })))),
  read: (done) => fs.readFile(__filename, 'utf8', done),
  readSync: (done) => done(null, fs.readFileSync(__filename)),
  stat: (done) => done(null, String(fs.readdirSync(__dirname).map((name) => fs.statSync(path.join(__dirname, name)).size))),
  write(done) {
    const file = path.join(os.tmpdir(), `web-${process.pid}-${crypto.randomUUID()}`);
    fs.writeFile(file, text, (err) => (err ? done(err) : fs.unlink(file, done)));
  },
  gzip: (done) => zlib.gzip(bytes, done),
  gunzip: (done) => done(null, zlib.gunzipSync(zlib.gzipSync(text))),
  brotli: (done) => zlib.brotliCompress(text, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 } }, done),
  pbkdf2: (done) => crypto.pbkdf2('a', 'b', 2000, 64, 'sha512', done),
  scrypt: (done) => crypto.scrypt('a', 'b', 32, { N: 1024 }, done),
  random: (done) => crypto.randomBytes(1024, done),
  hash: (done) => done(null, ['md5', 'sha1', 'sha256', 'sha512', 'sha3-256'].map((name) => crypto.createHash(name).update(bytes).digest('hex')).join()),
  cipher: (done) => done(null, ['aes-128-gcm', 'aes-256-cbc', 'aes-128-ctr', 'chacha20-poly1305'].map((name) => cipher(name).length).join()),
  sign(done) {
    for (const { privateKey, publicKey } of pairs) {
      if (!crypto.verify(null, text, publicKey, crypto.sign(null, text, privateKey))) throw new Error('not the signature');
    }
    done(null, 'signed');
  },
  regexp: (done) => done(null, text.replace(/row (\d+)/g, (_, n) => `ROW ${n}`)),
};

function answer(request, response) {
  ways[request.url.slice(1)]((err, body) => {
    if (err) response.statusCode = 500;
    response.end(body);
  });
}

function listen(server) {
  return new Promise((done) => server.listen(0, '127.0.0.1', () => done(server.address().port)));
}

async function serve() {
  const ports = [await listen(http.createServer(answer))];
  for (const name of ciphers) ports.push(await listen(https.createServer({ ...shared, ciphers: name }, answer)));
  const client = fork(__filename, ['ask', ...ports], { execArgv: [] });
  client.once('message', () => ready());
  client.once('exit', (code) => { throw new Error(`the client ended with status ${code}`); });
}

// ask requests all ways from the servers at ports, one after the other, each
// connection for some of them.
function ask(ports) {
  let answers = 0;
  const again = (port, way) => {
    const names = Object.keys(ways);
    const [protocol, rest] = port === ports[0] ? [http, {}] : [https, { ...shared, ciphers: ciphers[ports.indexOf(port) - 1] }];
    protocol.get({ ...rest, port, host: '127.0.0.1', path: `/${names[way % names.length]}`, agent: false }, (response) => {
      response.resume().on('end', () => {
        if (response.statusCode !== 200) throw new Error(`${names[way % names.length]}: status ${response.statusCode}`);
        if (++answers === asking * names.length) process.send('warm');
        again(port, way + 1);
      });
    }).on('error', () => process.exit(1)); // the server has ended, or says so
  };
  for (const port of ports) {
    for (let i = 0; i < asking; i++) again(port, i);
  }
  process.on('disconnect', () => process.exit());
}

if (process.argv[2] === 'ask') ask(process.argv.slice(3));
else serve();
