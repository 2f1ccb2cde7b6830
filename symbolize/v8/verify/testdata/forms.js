// Prints the form of each function, and then the function itself. Then it waits.
'use strict';
const fs = require('fs');

class Base { method() {} static create() {} get size() { return 1; } async *each() {} }
const functions = {
  bodied: [function () {}, function* () {}, async () => {}, Base.prototype.method, Base.create,
    Object.getOwnPropertyDescriptor(Base.prototype, 'size').get, Base.prototype.each],
  other: [() => {}, Base, class extends Base {}],
};
functions.other.push(functions.bodied.splice(2, 1)[0]);
for (const [form, list] of Object.entries(functions)) {
  for (const fn of list) {
    fs.writeSync(1, JSON.stringify({ Form: form }) + '\n');
    %DebugPrint(fn);
  }
}
console.log('ready');
fs.readSync(0, Buffer.alloc(1));
