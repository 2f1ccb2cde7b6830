'use strict';
// Prints the address of each element of the array in a file of JSON.
const fs = require('fs');
const data = JSON.parse(fs.readFileSync(process.argv[2]));
for (let number = 0; number < data.length; number++) {
  fs.writeSync(1, JSON.stringify({ number }) + '\n');
  %DebugPrint(data[number]);
}
fs.writeSync(1, 'ready\n');
fs.readSync(0, Buffer.alloc(1));
