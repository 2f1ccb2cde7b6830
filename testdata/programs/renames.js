// renames.js DIR: at SIGUSR2, it writes an unfinished line to a file of DIR and deletes it, a line to
// b.log, whose inode is that of the other one on many file systems, and to c.part. Later it renames
// them to b.old and c.log, and writes a line to each.
'use strict';

const fs = require('fs');
const path = require('path');

const open = (name) => fs.openSync(path.join(process.argv[2], name), 'a');

process.on('SIGUSR2', () => {
  const deleted = open('a.log');
  fs.writeSync(deleted, 'unfinished');
  fs.closeSync(deleted);
  fs.unlinkSync(path.join(process.argv[2], 'a.log'));
  const rotated = open('b.log');
  fs.writeSync(rotated, 'whole\n');
  const renamed = open('c.part');
  fs.writeSync(renamed, 'before\n');
  setTimeout(() => { // once their names were read, and are not taken for the files' any more
    fs.renameSync(path.join(process.argv[2], 'b.log'), path.join(process.argv[2], 'b.old'));
    fs.writeSync(rotated, 'rotated\n');
    fs.renameSync(path.join(process.argv[2], 'c.part'), path.join(process.argv[2], 'c.log'));
    fs.writeSync(renamed, 'after\n');
    console.log('done');
  }, 1000);
});
setInterval(() => {}, 1 << 30);
console.log('ready');
