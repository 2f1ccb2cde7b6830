// On SIGUSR2, logs records below the level of its logger and above, as fast as it can, and prints
// "done" with how many and how often a record was made for a probe.
//
// usage: node records.js PACKAGES COUNT
'use strict';
process.env.NODE_DTRACE_PROVIDER_REQUIRE = 'hard';
const path = require('path');
const { Writable } = require('stream');
const bunyan = require(path.join(process.argv[2], 'node_modules', 'bunyan'));
const count = Number(process.argv[3]);
let made = 0;
let written = 0;
const log = bunyan.createLogger({
  name: 'service', level: 'info',
  serializers: { made: () => ++made },
  stream: new Writable({ write(chunk, encoding, callback) { written++; callback(); } }),
});

process.on('SIGUSR2', () => {
  made = written = 0;
  for (let n = 0; n < count; n++) {
    log.debug({ made: n, n }, 'something went wrong');
    if (n % 10 === 0)
      log.info({ n }, 'all is well');
  }
  console.log('done ' + JSON.stringify({ Made: made, Written: written }));
});
setInterval(() => {}, 1 << 30);
console.log('ready');
