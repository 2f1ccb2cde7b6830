// Prints, for functions of many kinds, what V8 itself says of each, then the
// function's address; then waits. Run with --allow-natives-syntax --expose-gc.
'use strict';
const fs = require('fs');
const vm = require('vm');

let site;
globalThis.where = where;
function where() {
  const prepare = Error.prepareStackTrace;
  Error.prepareStackTrace = (_, sites) => sites;
  site = new Error().stack[1];
  Error.prepareStackTrace = prepare;
}

const cases = [];
// f is to have the name that V8 gives it on the stack while call runs.
function add(f, call = f) {
  site = undefined;
  call();
  cases.push({ f, name: site.getFunctionName() ?? '(anonymous)' });
}

function declared() { where(); }
const expression = function () { where(); };
const named = function inner() { where(); };
const arrow = () => { where(); };
async function asynchronous() { where(); }
function* generator() { where(); }
async function* both() { where(); }
function самая_длинная_функция() { where(); }
function 𝒳() { where(); }
function a_name_of_ninety_characters_is_longer_than_any_that_a_person_would_write_but_tools_do_so() { where(); }
function Old() { where(); }
Old.prototype.method = function () { where(); };
Old.fixed = function () { where(); };
exports.exported = function () { where(); };
module.exports.other = () => { where(); };

const key = 'computed' + process.pid;
const object = {
  method() { where(); },
  property: function () { where(); },
  get accessor() { where(); return 1; },
  set accessor(_) { where(); },
  [key]() { where(); },
  [key + 'function']: function () { where(); },
  [Symbol.iterator]() { where(); },
  get [key + 'get']() { where(); return 1; },
  async *['a' + 1]() { where(); },
};
class Base {
  constructor() { where(); }
  method() { where(); }
  static fixed() { where(); }
  static [key]() { where(); }
  [key + 'instance']() { where(); }
  #hidden() { where(); }
  hidden() { return this.#hidden; }
  field = () => { where(); };
}
class Derived extends Base { constructor() { super(); where(); } }
const Anonymous = class { constructor() { where(); } };

function many() {
  const source = Array.from({ length: 120 }, (_, i) => `let v${i} = ${i};`).join('') +
    'return function captures() { where(); return [' + Array.from({ length: 120 }, (_, i) => `() => v${i}`).join() + ']; }';
  return new Function(source)();
}
function nested() {
  let a = 1, b = 2, c = 3;
  return { outer: function () { where(); return () => a + b + c; } };
}

add(declared);
add(expression);
add(named);
add(arrow);
add(asynchronous);
add(generator, () => generator().next());
add(both, () => both().next());
add(самая_длинная_функция);
add(𝒳);
add(a_name_of_ninety_characters_is_longer_than_any_that_a_person_would_write_but_tools_do_so);
add(Old, () => new Old());
add(Old.prototype.method);
add(Old.fixed);
add(exports.exported);
add(module.exports.other);
for (const name of ['method', 'property', key, key + 'function', Symbol.iterator]) add(object[name]);
for (const name of ['accessor', key + 'get']) {
  const { get, set } = Object.getOwnPropertyDescriptor(object, name);
  add(get);
  if (set) add(set);
}
add(object.a1, () => object.a1().next());
const base = new Base();
add(Base, () => new Base());
add(base.method);
add(Base.fixed);
add(Base[key]);
add(base[key + 'instance']);
add(base.hidden());
add(base.field);
add(Derived, () => new Derived());
add(Anonymous, () => new Anonymous());
for (const f of [many(), nested().outer, eval('(function evaluated() { where(); })')]) add(f);
[0].forEach(function () { const f = () => { where(); }; add(f); });
add((() => () => { where(); })());
const moved = { filename: 'moved.js', lineOffset: 40, columnOffset: 7 };
add(new vm.Script('(function shifted() { where(); })', moved).runInThisContext());
add(new vm.Script('\r\n\r\n\r \u2028//\n\n \u2029 (function ends() { where(); })', moved).runInThisContext());
const external = require('path').join; // a source in the binary itself
cases.push({ f: external, name: 'join' });
cases.push({ f: JSON.parse, name: 'parse', builtin: true });
cases.push({ f: function never() { return 1; }, name: 'never' });

// The line and column of an offset, from 1.
function place(source, offset) {
  const before = source.slice(0, offset).split(/\r\n|[\n\r\u2028\u2029]/);
  return { line: before.length, column: before[before.length - 1].length + 1 };
}

function truth({ f, name, builtin }) {
  if (builtin) return { name, inferred: '', script: 0, start: -1, line: 0, column: 0, length: 0 };
  const source = %FunctionGetScriptSource(f), start = %FunctionGetScriptSourcePosition(f);
  const at = place(source, start);
  if (f.name === 'shifted' || f.name === 'ends') {
    if (at.line === 1) at.column += moved.columnOffset;
    at.line += moved.lineOffset;
  }
  return { name, inferred: %FunctionGetInferredName(f), script: %FunctionGetScriptId(f), start, ...at, length: source.length };
}

const lines = cases.map((c) => JSON.stringify(truth(c)) + '\n');
gc();
gc();
for (let i = 0; i < cases.length; i++) {
  fs.writeSync(1, lines[i]);
  %DebugPrint(cases[i].f);
}
fs.writeSync(1, 'ready\n');
fs.readSync(0, Buffer.alloc(1));
