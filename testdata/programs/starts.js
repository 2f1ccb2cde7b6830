// starts.js EXECUTABLE...: serves, and starts one child after another, each with the next executable. A child
// makes 5 requests as soon as it runs, and ends.
'use strict';

const { spawn } = require('child_process');
const http = require('http');

const requests = 5;

function request(port, name, number) {
  if (number > requests) return;
  const options = { port, host: '127.0.0.1', path: `/${name}/${number}`, agent: false };
  http.get(options, (response) => {
    response.resume();
    response.on('close', () => request(port, name, number + 1));
  });
}

async function start(server, executables) {
  for (const [number, executable] of executables.entries()) {
    const child = spawn(executable, [__filename, 'child', server.address().port, number]);
    await new Promise((resolve) => child.on('exit', resolve));
  }
  server.close();
}

const [role, port, name] = process.argv.slice(2);
if (role === 'child') {
  request(port, name, 1);
} else {
  const server = http.createServer((_, response) => response.end());
  server.listen(0, '127.0.0.1', () => start(server, process.argv.slice(2)));
}
