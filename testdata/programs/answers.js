// answers.js: a server that answers N requests for each SIGUSR2, then says done. A process
// of its own asks, on some connections that stay open.
'use strict';

const { fork } = require('child_process');
const http = require('http');
const { ready, say } = require('./lib/ready');

const asking = 4; // requests at a time

function answer(request, response) {
  const parts = request.url.split('/');
  const rows = Array.from({ length: 20 }, (_, i) => ({ id: i, list: parts[1], price: (Number(parts[2]) * 7 + i) % 97 }));
  rows.sort((a, b) => a.price - b.price || a.id - b.id);
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ rows, total: rows.reduce((sum, row) => sum + row.price, 0) }));
}

function serve(count) {
  const server = http.createServer(answer);
  server.keepAliveTimeout = 0;
  server.listen(0, '127.0.0.1', () => {
    const client = fork(__filename, ['ask', server.address().port, count], { execArgv: [] });
    client.once('message', () => { // so that all of it is compiled
      client.on('message', (sum) => say('done', { sum }));
      process.on('SIGUSR2', () => client.send('again'));
      ready({ pid: process.pid });
    });
    client.send('begin');
  });
}

function ask(port, count) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: asking });
  process.on('message', () => {
    let sum = 0;
    let begun = 0;
    let done = 0;
    const next = () => {
      const n = begun++;
      http.get({ agent, port, host: '127.0.0.1', path: `/orders/${n}` }, (response) => {
        response.on('data', (data) => { sum += data.length; }).on('end', () => {
          if (++done === count) process.send(sum);
          else if (begun < count) next();
        });
      });
    };
    for (let i = 0; i < asking; i++) next();
  });
  process.on('disconnect', () => process.exit());
}

if (process.argv[2] === 'ask') ask(process.argv[3], Number(process.argv[4]));
else serve(process.argv[2] || '1000');
