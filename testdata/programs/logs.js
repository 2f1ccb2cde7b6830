// Logs in every way, on SIGUSR2, and prints "done" and what it has logged.
//
// usage: node logs.js PACKAGES DIR: PACKAGES/node_modules has the loggers, DIR is for logs.
'use strict';
process.env.NODE_DTRACE_PROVIDER_REQUIRE = 'hard';
const fs = require('fs');
const path = require('path');
const { Worker, isMainThread, workerData } = require('worker_threads');
const TIMES = 50;

if (!isMainThread) {
  for (let i = 0; i < TIMES; i++)
    fs.writeSync(workerData, `{"level":40,"time":${Date.now()},"msg":"of a worker","n":${i}}\n`);
  return;
}

const [packages, dir] = process.argv.slice(2);
const load = (name) => require(path.join(packages, 'node_modules', name));
const bunyan = load('bunyan');
const pino = load('pino');
const winston = load('winston');
const file = (name) => path.join(dir, name);

const pinoFile = pino.destination({ dest: file('pino.log'), sync: false, minLength: 512 });
const winstonFile = new winston.transports.File({ filename: file('winston.log') });
const loggers = [
  bunyan.createLogger({ name: 'service', level: 'info', streams: [{ path: file('bunyan.log') }] }),
  pino({ level: 'info' }, pinoFile),
  winston.createLogger({ level: 'info', format: winston.format.json(), transports: [winstonFile] }),
];
const parts = fs.openSync(file('parts.log'), 'a');
const ofWorker = fs.openSync(file('worker.log'), 'a'); // stays open, so that its name can be read
const other = fs.openSync(file('data'), 'w');

function logAll() {
  for (let n = 0; n < TIMES; n++) {
    for (const logger of loggers.slice(0, 2)) {
      logger.debug({ n }, 'below the level');
      logger.info({ n }, 'at the level');
      logger.error({ n, text: 'x'.repeat(20000) }, 'long');
    }
    loggers[2].debug('below the level', { n });
    loggers[2].info('at the level', { n });
    console.log(`line ${n} \u001b[31m`);
    // A line in three writes, three lines in one, and vectors.
    fs.writeSync(parts, `part one ${n},`);
    fs.writeSync(parts, ' part two,');
    fs.writeSync(parts, ` part three\nwhole ${n}\nalso whole\nbegins`);
    fs.writevSync(parts, [Buffer.from(' and'), Buffer.alloc(0), Buffer.from(' ends\n'), Buffer.from('x\0y\n')]);
    fs.writeSync(other, 'no log\n');
  }
}

process.on('SIGUSR2', () => {
  logAll();
  new Worker(__filename, { workerData: ofWorker }).on('exit', () => {
    loggers[1].flush();
    // Once all that is queued was written, and the calls have returned.
    const has = (name, lines) => fs.readFileSync(file(name), 'utf8').split('\n').length > lines;
    const isWriting = () => pinoFile._writing || winstonFile._dest.writableLength > 0 || loggers[0].streams[0].stream.writableLength > 0;
    const wait = setInterval(() => {
      if (has('winston.log', TIMES) && has('bunyan.log', 2 * TIMES) && has('pino.log', 2 * TIMES) && !isWriting()) {
        clearInterval(wait);
        console.log('done');
      }
    }, 10);
  });
});
setInterval(() => {}, 1 << 30);
console.log('ready');
