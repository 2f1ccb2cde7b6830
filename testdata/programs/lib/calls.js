// Calls that hand one job each to libuv's pool.
'use strict';

const crypto = require('crypto');
const dns = require('dns');
const fs = require('fs');
const zlib = require('zlib');

const file = fs.openSync(__filename, 'r');
const bytes = Buffer.alloc(64);

// builtin holds node's own, by name. Each calls done with an error or nothing.
const builtin = {
  'fs.stat': (done) => fs.stat(__filename, done),
  'fs.read': (done) => fs.read(file, bytes, 0, bytes.length, 0, done),
  'fs.readdir': (done) => fs.readdir(__dirname, done),
  'dns.lookup': (done) => dns.lookup('localhost', done),
  'crypto.pbkdf2': (done) => crypto.pbkdf2('secret', 'salt', 1000, 32, 'sha256', done),
  'crypto.randomBytes': (done) => crypto.randomBytes(32, done),
  'zlib.deflate': deflate,
};

// deflate leaves its stream unended: the end would be a second job.
function deflate(done) {
  const stream = zlib.createDeflate();
  stream.write(bytes, (error) => {
    stream.destroy();
    done(error);
  });
}

// addon returns the call of a function of one of our own add-ons.
function addon(exported, step) {
  const submit = exported[step.call];
  const us = step.us || 0;
  return (done) => submit(us, (cancelled) => done(null, cancelled), step.resource);
}

// bcrypt returns the call that hashes with npm's package of that name.
function bcrypt(exported) {
  const salt = exported.genSaltSync(4);
  return (done) => exported.hash('secret', salt, (error) => done(error));
}

// find returns the function that begins a job of the step and calls done(error,
// cancelled) when it has ended.
function find(step, addons) {
  if (step.addon === undefined) {
    const call = builtin[step.call];
    if (!call) throw new Error(`no call ${step.call}`);
    return (done) => call((error) => done(error));
  }
  const exported = addons[step.addon];
  if (!exported) throw new Error(`no add-on ${step.addon}`);
  return step.addon === 'bcrypt' ? bcrypt(exported) : addon(exported, step);
}

module.exports = { find };
