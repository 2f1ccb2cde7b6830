// renames.js DIR: at SIGUSR2, it writes an unfinished line to a file of DIR and deletes it, a line to
// b.log, whose inode is that of the other one on many file systems, and lines to c.part, which it
// renames to c.log meanwhile.
'use strict';

const fs = require('fs');
const path = require('path');

const open = (name) => fs.openSync(path.join(process.argv[2], name), 'a');

process.on('SIGUSR2', () => {
  const deleted = open('a.log');
  fs.writeSync(deleted, 'unfinished');
  fs.closeSync(deleted);
  fs.unlinkSync(path.join(process.argv[2], 'a.log'));
  fs.writeSync(open('b.log'), 'whole\n');
  const renamed = open('c.part');
  fs.writeSync(renamed, 'before\n');
  setTimeout(() => { // once its name was read, and is not taken for the file's any more
    fs.renameSync(path.join(process.argv[2], 'c.part'), path.join(process.argv[2], 'c.log'));
    fs.writeSync(renamed, 'after\n');
    console.log('done');
  }, 1000);
});
setInterval(() => {}, 1 << 30);
console.log('ready');
