// sqlite.js PACKAGE: keeps npm's sqlite3, whose folder is PACKAGE, at work: over
// and over it opens a database in memory, fills a table, asks for its rows and
// closes it.
'use strict';

const { ready } = require('./lib/ready');

const rows = 50;
const pause = 5; // milliseconds between two databases

const sqlite3 = require(process.argv[2]);

// asked turns a function that takes a callback last into one that returns a promise.
const asked = (on, name) => (...args) => new Promise((done, fail) => {
  on[name](...args, (error, result) => (error ? fail(error) : done(result)));
});

function open() {
  return new Promise((done, fail) => {
    const db = new sqlite3.Database(':memory:', (error) => (error ? fail(error) : done(db)));
  });
}

async function fillAndAsk() {
  const db = await open();
  await asked(db, 'exec')('CREATE TABLE lorem (info TEXT)');
  const insert = db.prepare('INSERT INTO lorem VALUES (?)');
  for (let i = 0; i < rows; i++) await asked(insert, 'run')(`Ipsum ${i}`);
  await asked(insert, 'finalize')();
  const all = await asked(db, 'all')('SELECT rowid AS id, info FROM lorem ORDER BY info');
  if (all.length !== rows) throw new Error(`${all.length} rows, not ${rows}`);
  await asked(db, 'close')();
}

async function main() {
  ready({ pid: process.pid });
  for (;;) {
    await fillAndAsk();
    await new Promise((done) => setTimeout(done, pause));
  }
}

main();
