'use strict';
// cold.js: has node do work of its own on libuv's pool, each by a function that is
// called once, as soon as it starts.
const crypto = require('crypto');
const zlib = require('zlib');
const fs = require('fs');

const done = () => {};

function coldDerive() { crypto.pbkdf2('a', 'b', 10, 16, 'sha1', done); }
function coldScrypt() { crypto.scrypt('a', 'b', 16, done); }
function coldRandom() { crypto.randomBytes(100, done); }
function coldKeys() { crypto.generateKeyPair('ec', { namedCurve: 'P-256' }, done); }
function coldExpand() { crypto.hkdf('sha512', 'key', 'salt', 'info', 64, done); }
function coldDeflate() { zlib.deflate('x'.repeat(1000), done); }
function coldStat() { fs.stat('/', done); }

for (const call of [coldDerive, coldScrypt, coldRandom, coldKeys, coldExpand, coldDeflate, coldStat]) call();
