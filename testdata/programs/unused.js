'use strict';
// Calls hold from itself, each time with an object that it uses after the call and one
// that it does not, and has V8 count in the last call how many of each are alive; where V8
// cannot, by what its compilers are known to keep. It then does the same again, and stands
// still in the last call with no garbage collected. Arguments: the tier of hold's code, and
// how often. Needs --allow-natives-syntax.

const v8 = require('v8');
const { ready } = require('./lib/ready');

const [tier, times] = [process.argv[2], Number(process.argv[3])];

class Used { constructor(i) { this.i = i; } }
class Unused { constructor(i) { this.i = i; } }

function make(Class, i) { return new Class(i); }
%NeverOptimizeFunction(make);
function read(object) { return object.i; }
%NeverOptimizeFunction(read);

let atEnd = () => 0;
function end() { return atEnd(); }
%NeverOptimizeFunction(end);

function hold(n) {
  const used = make(Used, n);
  const unused = make(Unused, n);
  read(used);
  read(unused); // what it is kept in is not needed for anything else
  return (n === 1 ? end() : hold(n - 1)) + read(used);
}

const optimize = {
  turbofan: (f) => %OptimizeFunctionOnNextCall(f),
  maglev: (f) => eval('%OptimizeMaglevOnNextCall(f)'), // not every V8 has it
};
if (tier !== 'interpreted') {
  %PrepareFunctionForOptimization(hold);
  hold(3);
  hold(3);
  optimize[tier](hold);
}

function count(Class) {
  if (v8.queryObjects) return v8.queryObjects(Class, { format: 'count' });
  return Class === Used || tier === 'interpreted' ? times : 0;
}

const alive = {};
atEnd = () => {
  Object.assign(alive, { Used: count(Used), Unused: count(Unused) });
  return 0;
};
hold(times);
atEnd = () => {
  ready({ pid: process.pid, alive });
  return Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
};
hold(times);
