// mixed.js: the mix of a busy server without the network: classes, regular
// expressions, JSON, sorting, strings, Map and Set, Buffers, crypto, zlib,
// promises, and the collector. With --shares, it prints on SIGUSR2 which shares of
// the process's CPU time, in percent, some functions took since the last time.
'use strict';

const crypto = require('crypto');
const zlib = require('zlib');
const { ready, say } = require('./lib/ready');

class Account {
  #balance = 0;
  constructor(id, name) { this.id = id; this.name = name; this.log = []; }
  deposit(amount) { this.#balance += amount; this.log.push({ amount, at: this.log.length }); return this; }
  get balance() { return this.#balance; }
  toJSON() { return { id: this.id, name: this.name, balance: this.#balance, log: this.log }; }
}

class Savings extends Account {
  deposit(amount) { return super.deposit(amount + Math.floor(amount / 100)); }
}

function openAccounts(count) {
  return Array.from({ length: count }, (_, i) => {
    const account = i % 2 ? new Savings(i, `saver ${i}`) : new Account(i, `payer ${i}`);
    for (let n = 0; n < 8; n++) account.deposit(100 * n + i);
    return account;
  });
}

function matchLog(text) {
  const line = /^(?<user>\w+) (?<id>\d+)=(?<value>[\d.]+);?$/gm;
  let sum = 0;
  for (const { groups } of text.matchAll(line)) sum += Number(groups.value) + groups.user.length;
  return sum + text.replace(/\d+/g, (digits) => digits.length).length;
}

function buildText(count) {
  let text = '';
  for (let i = 0; i < count; i++) text += `user${i % 7} ${i}=${i * 1.5};\n`;
  return text;
}

function roundTrip(accounts) {
  return JSON.parse(JSON.stringify(accounts), (key, value) => (key === 'at' ? value + 1 : value));
}

function sortAccounts(accounts) {
  const byName = [...accounts].sort((a, b) => (a.name < b.name ? -1 : 1));
  return byName.sort((a, b) => b.balance - a.balance || a.id - b.id);
}

function countWords(text) {
  const words = new Map();
  const seen = new Set();
  for (const word of text.split(/\s+/)) {
    words.set(word, (words.get(word) || 0) + 1);
    seen.add(word.length);
  }
  return words.size + seen.size;
}

function digest(text) {
  const key = crypto.pbkdf2Sync('password', 'salt', 200, 32, 'sha256');
  return crypto.createHmac('sha512', key).update(text).digest('hex').length;
}

function squeeze(text) {
  return zlib.inflateSync(zlib.deflateSync(Buffer.from(text), { level: 6 })).length;
}

function copyBytes(size) {
  const bytes = Buffer.alloc(size);
  for (let i = 0; i + 4 <= size; i += 4) bytes.writeUInt32LE((i * 2654435761) >>> 0, i);
  return bytes.toString('base64').length + Buffer.concat([bytes, bytes.subarray(1)]).indexOf(0xff);
}

async function settle(value) { await null; return value + 1; }
async function settleAll(count) {
  const values = await Promise.all(Array.from({ length: count }, (_, i) => settle(i)));
  return values.reduce((sum, v) => sum + v, 0);
}

function* fibonacci() { for (let [a, b] = [0, 1]; ; [a, b] = [b, a + b]) yield a; }
function sumFibonacci(count) {
  let sum = 0;
  for (const value of fibonacci()) {
    if (count-- === 0) return sum;
    sum += value;
  }
  return sum;
}

const spent = {}; // microseconds by function, with --shares

// cpu returns the microseconds of CPU time that the process has used.
function cpu() {
  const { user, system } = process.cpuUsage();
  return user + system;
}

// timed returns f with the time that it takes added to what its name has spent.
function timed(f) {
  spent[f.name] = 0;
  return (...args) => {
    const before = cpu();
    const result = f(...args);
    spent[f.name] += cpu() - before;
    return result;
  };
}

function measureShares() {
  roundTrip = timed(roundTrip);
  crypto.pbkdf2Sync = timed(crypto.pbkdf2Sync);
  let since = cpu();
  process.on('SIGUSR2', () => {
    const now = cpu();
    say('shares', Object.fromEntries(Object.entries(spent).map(([name, time]) => [name, 100 * time / (now - since)])));
    Object.keys(spent).forEach((name) => { spent[name] = 0; });
    since = now;
  });
}

async function mixedMain() {
  if (process.argv.includes('--shares')) measureShares();
  ready({ pid: process.pid });
  for (let kept = 0; ; kept %= 1000) {
    const accounts = openAccounts(60);
    const text = buildText(200);
    kept += matchLog(text) + roundTrip(accounts).length + sortAccounts(accounts).length;
    kept += countWords(text) + digest(text) + squeeze(text) + copyBytes(2048);
    kept += await settleAll(100) + sumFibonacci(60);
    await new Promise(setImmediate);
  }
}

mixedMain();
