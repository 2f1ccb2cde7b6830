// work.js FOLDER NAME: runs a program of npm's packages, in whose node_modules they are, again
// and again until SIGTERM; "ready" follows the first time. A server gets its port from a test:
// work.js FOLDER load PORT keeps it busy.
'use strict';

const fs = require('fs');
const net = require('net');
const path = require('path');
const { ready } = require('../programs/lib/ready');

const [folder, name, port] = process.argv.slice(2);
const from = (...names) => path.join(folder, 'node_modules', ...names);
const text = (...names) => fs.readFileSync(from(...names), 'utf8');
const texts = (...names) => fs.readdirSync(from(...names)).filter((file) => /\.[jt]s$/.test(file)).map((file) => text(...names, file));

// Each program returns a function that does its work once.
const programs = {
  tsc() {
    const ts = require(from('typescript'));
    const options = { noEmit: true, strict: true, target: ts.ScriptTarget.ES2020, lib: ['lib.es2020.d.ts', 'lib.dom.d.ts'], types: [], skipLibCheck: true };
    return () => {
      const program = ts.createProgram([from('rxjs', 'src', 'index.ts')], options);
      return ts.getPreEmitDiagnostics(program).length;
    };
  },

  prettier() {
    const prettier = require(from('prettier'));
    const sources = texts('rxjs', 'src', 'internal');
    return async () => {
      for (const source of sources) await prettier.format(source, { parser: 'typescript' });
    };
  },

  terser() {
    const { minify } = require(from('terser'));
    const source = text('rxjs', 'dist', 'bundles', 'rxjs.umd.js');
    return () => minify(source, { compress: { passes: 2 }, mangle: true });
  },

  webpack() {
    const webpack = require(from('webpack'));
    const nowhere = {
      mkdir: (dir, done) => done(null), writeFile: (file, data, done) => done(null),
      stat: (file, done) => done(Object.assign(new Error('none'), { code: 'ENOENT' })),
    };
    return () => new Promise((resolve, reject) => {
      const compiler = webpack({
        mode: 'production', target: 'node', context: folder, cache: false, devtool: 'source-map', output: { path: '/nowhere' },
        entry: [from('rxjs', 'dist', 'esm', 'index.js'), from('lodash', 'fp.js')], optimization: { minimize: false },
      });
      compiler.outputFileSystem = nowhere;
      compiler.run((err, stats) => compiler.close(() => (err || stats.hasErrors() ? reject(err || stats.toString()) : resolve())));
    });
  },

  express() {
    const express = require(from('express'));
    const app = express();
    app.use((request, response, next) => {
      response.setHeader('x-began', Date.now());
      next();
    });
    for (const list of ['users', 'orders', 'items']) {
      app.get(`/${list}/:id`, (request, response) => response.json({ list, id: request.params.id, fields: request.query }));
    }
    return serve((done) => app.listen(0, '127.0.0.1', done));
  },

  fastify() {
    const app = require(from('fastify'))();
    const fields = { type: 'object', properties: { list: { type: 'string' }, id: { type: 'string' }, fields: { type: 'object', additionalProperties: true } } };
    for (const list of ['users', 'orders', 'items']) {
      app.get(`/${list}/:id`, { schema: { response: { 200: fields } } }, async (request) => ({ list, id: request.params.id, fields: request.query }));
    }
    return serve((done) => {
      app.listen({ port: 0, host: '127.0.0.1' }, done);
      return app.server;
    });
  },

  handlebars() {
    const handlebars = require(from('handlebars'));
    handlebars.registerHelper('price', (cents) => `${(cents / 100).toFixed(2)} €`);
    handlebars.registerPartial('row', '<tr class="{{kind}}"><td>{{name}}</td><td>{{price cents}}</td>{{#if old}}<td>{{note}}</td>{{/if}}</tr>');
    const source = '<h1>{{title}}</h1><table>{{#each rows}}{{> row}}{{else}}none{{/each}}</table>';
    const rows = Array.from({ length: 2000 }, (_, i) => ({ kind: `k${i % 7}`, name: `<name & ${i}>`, cents: i * 37, old: i % 3 === 0, note: `"${i}"` }));
    return () => handlebars.compile(source)({ title: 'rows', rows }).length;
  },

  json() {
    const json5 = require(from('json5'));
    const value = Array.from({ length: 400 }, (_, i) => ({ id: i, name: `name ${i}`, tags: ['a', 'b', `c${i}`], nested: { x: i / 3, y: [i, null, true] } }));
    const source = JSON.stringify(value);
    return () => {
      const again = json5.parse(json5.stringify(value));
      for (let i = 0; i < 10; i++) JSON.parse(source, (key, part) => (key === 'id' ? part + 1 : part));
      for (let i = 0; i < 40; i++) JSON.parse(JSON.stringify(again));
      return again.length;
    };
  },

  regexp() {
    const hljs = require(from('highlight.js'));
    const sources = texts('rxjs', 'src', 'internal');
    return () => sources.reduce((sum, source) => sum + hljs.highlight(source, { language: 'typescript' }).value.length, 0);
  },

  jest() {
    const { runCLI } = require(from('jest'));
    const rootDir = path.join(__dirname, 'jest');
    const config = JSON.stringify({
      rootDir, modulePaths: [from()], transform: { '\\.js$': from('babel-jest') },
      testEnvironment: from('jest-environment-node'), testRunner: from('jest-circus', 'runner.js'),
    });
    const options = { $0: 'jest', _: [], config, runInBand: true, watchman: false, cache: false, silent: true, reporters: [] };
    return async () => {
      const { results } = await runCLI(options, [rootDir]);
      if (!results.success) throw new Error(JSON.stringify(results.testResults));
    };
  },
};

// serve is told how to listen. Its work is to let the event loop run. Node.js 16 would hold
// an answer back until the client has acknowledged the one before, some 40 ms.
function serve(listen) {
  let server;
  return async () => {
    if (server) return new Promise((resolve) => setTimeout(resolve, 10));
    await new Promise((resolve) => {
      server = listen(resolve);
      server.on('connection', (socket) => socket.setNoDelay());
    });
    return { port: String(server.address().port) };
  };
}

// load keeps requests in flight on each of some connections, until there is no server.
function load() {
  const requests = ['users', 'orders', 'items'].map((list, i) => `GET /${list}/${i}?a=1&b=two&c=${i} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n`).join('');
  const connections = 16;
  function connect() {
    let answers = '';
    const socket = net.connect(port, '127.0.0.1', () => socket.write(requests));
    socket.setEncoding('latin1');
    socket.on('data', (data) => {
      answers += data;
      if (answers.split('HTTP/1.1 200 OK\r\n').length > 3 && answers.endsWith('}')) {
        answers = '';
        socket.write(requests);
      }
    });
    socket.on('error', ({ code }) => {
      if (code === 'ECONNREFUSED') process.exit();
    });
    socket.on('close', connect); // a server ends connections that are idle for some seconds
  }
  for (let i = 0; i < connections; i++) connect();
  ready();
}

async function repeat(work) {
  let ended = false;
  process.once('SIGTERM', () => {
    ended = true;
  });
  const { port: listening } = (await work()) || {};
  ready({ port: listening });
  while (!ended) {
    await work();
    await new Promise((resolve) => setImmediate(resolve));
  }
  process.exit();
}

if (name === 'load') load();
else repeat(programs[name]());
