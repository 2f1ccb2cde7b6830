// values.js: one value of every kind, each in its awkward forms, with what is
// true of it. The values are properties of one object of the class Held. It
// prints a line of JSON, {name: truth}, then "ready", and waits for its input to
// close. A value inside another is told in brief: "text", 1.5, undefined, 12n,
// Symbol(name), and @name for one that is held itself.
'use strict';

const fs = require('fs');
const { MessageChannel } = require('worker_threads');

class Held {}
const held = new Held();
global.held = held;
const truths = {};
const names = new Map();

// hold keeps a value under a name with what is true of it.
function hold(name, value, truth) {
  held[name] = value;
  truths[name] = truth;
  if (Object(value) === value) names.set(value, name);
  return value;
}

// brief tells a value in a word.
function brief(value) {
  if (names.has(value)) return '@' + names.get(value);
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value);
    case 'bigint':
      return value + 'n';
    case 'number':
      return Object.is(value, -0) ? '-0' : String(value);
    case 'object':
      return value === null ? 'null' : value.constructor.name;
    case 'function':
      return value.name;
  }
  return String(value);
}

function collections() {
  const key = hold('key', { id: 7 }, { kind: 'object' });
  const entries = [['a', 1], [key, 'object'], [NaN, null], [-0.5, undefined], [12n, key]];
  hold('map', new Map(entries), { kind: 'map', entries: entries.map((e) => e.map(brief)) });
  hold('emptyMap', new Map(), { kind: 'map', entries: [] });
  const changed = new Map();
  for (let i = 0; i < 100; i++) changed.set('key' + i, i);
  for (let i = 0; i < 100; i++) if (i % 10 !== 3) changed.delete('key' + i);
  hold('changedMap', changed, { kind: 'map', entries: [...changed].map((e) => e.map(brief)) });
  const many = new Set();
  for (let i = 0; i < 1000; i++) many.add(i * 3);
  hold('set', many, { kind: 'set', entries: [...many].map((v) => [brief(v)]) });
  hold('weakMap', new WeakMap([[key, 'kept'], [held, key]]), {
    kind: 'weakmap', entries: [['@key', '"kept"'], ['Held', '@key']],
  });
  hold('weakSet', new WeakSet([key]), { kind: 'weakset', entries: [['@key']] });
  const registry = hold('registry', new FinalizationRegistry(() => {}), {
    kind: 'registry', target: '@key', holdings: '"told"',
  });
  registry.register(key, 'told', held);
  hold('weakRef', new WeakRef(key), { kind: 'weakref', target: '@key' });
}

function promises() {
  hold('pending', new Promise(() => {}), {
    kind: 'promise', state: 'pending', value: 'undefined', reactions: ['await in sleeper', 'await in ticker'],
  });
  hold('fulfilled', Promise.resolve('done'), { kind: 'promise', state: 'fulfilled', value: '"done"', reactions: [] });
  const reason = hold('reason', new TypeError('no'), errorTruth('TypeError', 'no'));
  const rejected = Promise.reject(reason);
  rejected.catch(() => {});
  hold('rejected', rejected, { kind: 'promise', state: 'rejected', value: '@reason', reactions: [] });
  const awaited = new Promise(() => {});
  awaited.then(function first() {}, function failed() {});
  awaited.then(function second() {});
  awaited.finally(function last() {});
  hold('awaited', awaited, { kind: 'promise', state: 'pending', value: 'undefined', reactions: ['first', 'second', ''] });
}

function errorTruth(name, message, more) {
  return { kind: 'error', name, message, ...more };
}

class Fault extends RangeError {
  constructor(message, options) {
    super(message, options);
    this.code = 'E_FAULT';
  }
}

class Engine {
  start() { return new Error('unread'); }
  static build() { return new Engine().start(); }
  get power() { return new Error('of a getter'); }
  ['comp' + 'uted']() { return [1].map(function each() { return new Error('in a callback'); })[0]; }
}

// errors makes each error twice at the same place: the stack of one is read,
// which has V8 format it, that of the other is not.
function errors() {
  const make = {
    unread: () => Engine.build(),
    getter: () => new Engine().power,
    computed: () => new Engine().computed(),
    fault: () => new Fault('deep', { cause: held.key }),
    nested: () => [2].map((n) => new SyntaxError('n' + n))[0],
    evaluated: () => eval('(function inEval() { return new Error("from eval"); })()'),
    assigned: () => assigned.method(),
    detached: () => detached(),
  };
  const assigned = {};
  assigned.method = function () { return new Error('assigned'); };
  const detached = assigned.method;
  for (const name of Object.keys(make)) {
    const made = [];
    for (let i = 0; i < 2; i++) made.push(make[name]());
    const [fresh, read] = made;
    const truth = errorTruth(read.name, read.message, {
      class: read.constructor.name, stack: read.stack, cause: 'cause' in read ? brief(read.cause) : undefined,
    });
    hold('error_' + name + '_fresh', fresh, truth);
    hold('error_' + name + '_read', read, truth);
  }
  const captured = { name: 'Captured' };
  Error.captureStackTrace(captured);
  hold('captured', captured, { kind: 'captured', stack: String(captured.stack) });
}

async function inner(wait) {
  await wait;
  return new Error('late');
}
const outer = { async load(wait) { return await inner(wait); } };

// asyncErrors is errors for calls whose callers wait for them.
async function asyncErrors() {
  const make = {
    awaited: () => outer.load(null),
    all: () => Promise.all([null, inner(null)]).then((all) => all[1]),
    inAll: async () => (await Promise.all([null, outer.load(null)]))[1],
    raced: async () => (await Promise.allSettled([outer.load(null)]))[0].value,
    any: async () => await Promise.any([outer.load(null)]),
  };
  for (const name of Object.keys(make)) {
    const made = [];
    for (let i = 0; i < 2; i++) made.push(await make[name]());
    hold('async_' + name, made[0], errorTruth('Error', 'late', { stack: made[1].stack }));
  }
}

// shapes holds objects with their properties and elements in every way in which
// V8 keeps them.
function shapes() {
  const wide = { first: 1 };
  for (let i = 0; i < 40; i++) wide['p' + i] = i % 2 ? i + 0.5 : 'v' + i;
  const outside = new (class Outside { constructor() { this.a = 1.25; } })();
  for (const name of ['b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k']) outside[name] = name;
  const dictionary = { gone: 1, stays: 'here' };
  for (let i = 0; i < 50; i++) dictionary['d' + i] = i;
  delete dictionary.gone;
  const accessors = {
    get both() { return 1; }, set both(v) {},
    get half() { return 2; },
    [Symbol('key')]: held.key, [Symbol.toStringTag]: 'Tagged', '': 'empty', ключ: 'two bytes',
  };
  Object.defineProperty(accessors, 'hidden', { value: 'unseen', enumerable: false });
  const sparse = [];
  sparse[3] = 'three';
  sparse[5000000] = 'far';
  const all = {
    wide, outside, dictionary, accessors, sparse,
    nullPrototype: Object.assign(Object.create(null), { x: -0 }),
    packed: [1, 2, 3], holey: [1, , 3], doubles: [0.5, -0, NaN, 123456789012], holeyDoubles: [0.5, , 2.5],
    mixed: ['text', held.key, null, undefined, 7n], indexed: { 1: 'one', 7: 'seven', name: 'x' },
    frozen: Object.freeze([1, 'two']), empty: [],
  };
  for (const [name, object] of Object.entries(all)) hold('shape_' + name, object, shapeTruth(object));
}

function shapeTruth(object) {
  const properties = {}, elements = {};
  for (const key of Reflect.ownKeys(object)) {
    const { value, get, set } = Object.getOwnPropertyDescriptor(object, key);
    const index = typeof key === 'string' && String(Number(key)) === key;
    if (key === 'length') continue;
    (index ? elements : properties)[String(key)] = get || set ? [Boolean(get), Boolean(set)] : brief(value);
  }
  return { kind: 'shape', properties, elements };
}

function primitives() {
  const bigints = [0n, 1n, -1n, 2n ** 63n, -(2n ** 64n), 2n ** 64n - 1n, 3n ** 631n, -(7n ** 200n), 10n ** 19n];
  bigints.forEach((n, i) => hold('bigint' + i, n, { kind: 'bigint', text: String(n) }));
  hold('symbol', Symbol('local'), { kind: 'symbol', description: 'local' });
  hold('symbolNameless', Symbol(), { kind: 'symbol', description: null });
  hold('symbolEmpty', Symbol(''), { kind: 'symbol', description: '' });
  hold('symbolIterator', Symbol.iterator, { kind: 'symbol', description: 'Symbol.iterator', wellKnown: true });
  hold('secretive', new Secretive(), { kind: 'private', names: { '#hidden': '"value"' } });
  hold('symbolShared', Symbol.for('shared'), { kind: 'symbol', description: 'shared', shared: true });
  hold('boxedNumber', new Number(-1.5), { kind: 'wrapper', value: '-1.5' });
  hold('boxedString', new String('text'), { kind: 'wrapper', value: '"text"' });
  hold('boxedBoolean', new Boolean(false), { kind: 'wrapper', value: 'false' });
  hold('boxedSymbol', Object(Symbol.for('boxed')), { kind: 'wrapper', value: 'Symbol(boxed)' });
  hold('boxedBigint', Object(-99n), { kind: 'wrapper', value: '-99n' });
  for (const ms of [0, 1700000000123, -62198755200000]) {
    hold('date' + ms, new Date(ms), { kind: 'date', ms: String(ms) });
  }
  hold('dateInvalid', new Date(NaN), { kind: 'date', ms: 'NaN' });
  const expressions = [/a+b/, /x\/y/gi, /^é$/my, /(?<n>.)\k<n>/su, new RegExp('')];
  expressions.forEach((r, i) => {
    hold('regexp' + i, r, { kind: 'regexp', source: r.source, flags: r.flags });
  });
  const used = /u(s)ed/dg;
  used.exec('used');
  hold('regexpUsed', used, { kind: 'regexp', source: used.source, flags: used.flags });
}

function callables() {
  const target = hold('target', function target(a, b) { return this + a + b; }, functionTruth('function'));
  const bound = hold('bound', target.bind(held.key, 1, 'two'), {
    kind: 'bound', target: '@target', this: '@key', args: ['1', '"two"'],
  });
  hold('boundTwice', bound.bind(null), { kind: 'bound', target: '@bound', this: 'null', args: [] });
  const proxy = hold('proxy', new Proxy(held.key, Reflect), { kind: 'proxy', target: '@key', handler: 'Object' });
  hold('proxyOfProxy', new Proxy(proxy, { get: target }), { kind: 'proxy', target: '@proxy', handler: 'Object' });
  const { proxy: revoked, revoke } = Proxy.revocable({}, {});
  revoke();
  hold('revoked', revoked, { kind: 'proxy', revoked: true });
  hold('callableProxy', new Proxy(target, {}), { kind: 'proxy', target: '@target', handler: 'Object' });
  sloppy(1, 'two', held.key);
  (function () { hold('strictArguments', arguments, { kind: 'arguments', values: [...arguments].map(brief) }); })(3n, null);
  functions();
}

const sloppy = new Function('brief', 'hold', `return function sloppy(a, b) {
  b = 'changed';
  hold('arguments', arguments, { kind: 'arguments', values: [...arguments].map(brief) });
  return () => a + b;
}`)(brief, hold);

function functionTruth(kind, more) {
  return { kind: 'function', is: kind, ...more };
}

class Base {
  constructor() { this.made = true; }
  method() {}
  static make() {}
  get size() { return 1; }
  set size(n) {}
  *each() {}
  async load() {}
  async *stream() {}
  #secret() {}
  static secretOf(b) { return b.#secret; }
}
class Derived extends Base {}
class Secretive {
  #hidden = 'value';
  #method() {}
  see() { return this.#hidden + this.#method; }
}

function functions() {
  const size = Object.getOwnPropertyDescriptor(Base.prototype, 'size');
  const all = {
    arrow: [(x) => x + 1, 'arrow'],
    asyncArrow: [async (x) => x, 'async arrow'],
    asyncFunction: [async function asyncFunction() {}, 'async function'],
    generatorFunction: [function* generatorFunction() {}, 'generator'],
    asyncGenerator: [async function* asyncGenerator() {}, 'async generator'],
    method: [Base.prototype.method, 'method'],
    privateMethod: [Base.secretOf(new Base()), 'method'],
    staticMethod: [Base.make, 'method'],
    generatorMethod: [Base.prototype.each, 'generator method'],
    asyncMethod: [Base.prototype.load, 'async method'],
    asyncGeneratorMethod: [Base.prototype.stream, 'async generator method'],
    getter: [size.get, 'getter'],
    setter: [size.set, 'setter'],
    base: [Base, 'class'],
    derived: [Derived, 'class'],
  };
  for (const [name, [fn, is]] of Object.entries(all)) {
    hold('fn_' + name, fn, functionTruth(is, { source: fn.toString() }));
  }
  truths.target.source = held.target.toString();
  hold('fn_builtin', Array.prototype.map, functionTruth('builtin', { source: '' }));
  hold('fn_api', process.reallyExit, functionTruth('api', { source: '' }));
}

function* numbers(n) {
  let i = 0;
  while (i < n) {
    yield i++; // at: numbers
  }
}
async function sleeper() {
  await held.pending; // at: sleeper
}
async function* ticker() {
  yield 1;
  await held.pending; // at: ticker
}

function generators() {
  const fresh = numbers(3);
  hold('generatorFresh', fresh, { kind: 'generator', function: 'numbers', state: 'suspended', line: lineOf('function* numbers') });
  const suspended = numbers(3);
  suspended.next();
  suspended.next();
  hold('generator', suspended, { kind: 'generator', function: 'numbers', state: 'suspended', line: lineOf('// at: numbers') });
  const closed = numbers(0);
  closed.next();
  hold('generatorClosed', closed, { kind: 'generator', function: 'numbers', state: 'closed', line: 0 });
  function* running() {
    hold('generatorRunning', it, { kind: 'generator', function: 'running', state: 'running', line: 0 });
    finish();
  }
  const it = running();
  hold('sleeping', sleeper(), { kind: 'promise', state: 'pending', value: 'undefined', reactions: [] });
  const ticking = ticker();
  ticking.next();
  ticking.next();
  hold('ticker', ticking, { kind: 'generator', function: 'ticker', state: 'suspended', line: lineOf('// at: ticker') });
  return it;
}

const text = fs.readFileSync(__filename, 'latin1').split('\n');
function lineOf(mark) {
  return text.findIndex((line) => line.includes(mark) && !line.includes('lineOf')) + 1;
}

function buffers() {
  const plain = hold('buffer', new Uint8Array([1, 2, 3, 250]).buffer, { kind: 'arraybuffer', bytes: '010203fa' });
  hold('bufferEmpty', new ArrayBuffer(0), { kind: 'arraybuffer', bytes: '' });
  const shared = hold('bufferShared', new SharedArrayBuffer(5), { kind: 'arraybuffer', bytes: '0000000009', shared: true });
  new Uint8Array(shared)[4] = 9;
  const detached = new ArrayBuffer(16);
  detach(detached);
  hold('bufferDetached', detached, { kind: 'arraybuffer', bytes: '', detached: true });
  hold('smallBuffer', Buffer.from('hello'), viewTruth('Uint8', Buffer.from('hello')));
  hold('onHeap', new Float64Array([1.5, -2]), viewTruth('Float64', new Float64Array([1.5, -2])));
  hold('large', new Uint16Array(1000).fill(7), viewTruth('Uint16', new Uint16Array(1000).fill(7)));
  hold('window', new Int16Array(plain, 2, 1), { kind: 'typedarray', type: 'Int16', bytes: '03fa', length: 1, buffer: '@buffer' });
  for (const type of ['Int8', 'Uint8Clamped', 'Int32', 'Uint32', 'Float32', 'BigInt64', 'BigUint64']) {
    const Array = globalThis[type + 'Array'];
    const values = type.startsWith('Big') ? [1n, 2n] : [1, 2];
    hold('array' + type, new Array(values), viewTruth(type, new Array(values)));
  }
  const given = new ArrayBuffer(8);
  hold('detachedView', new Uint8Array(given, 4), { kind: 'typedarray', type: 'Uint8', bytes: '', length: 0 });
  detach(given);
  hold('dataView', new DataView(plain, 1, 2), { kind: 'dataview', bytes: '0203', buffer: '@buffer' });
  if ('resizable' in ArrayBuffer.prototype) resizables();
}

// detach gives a buffer's memory away.
function detach(buffer) {
  const { port1, port2 } = new MessageChannel();
  port1.postMessage(0, [buffer]);
  port1.close();
  port2.close();
}

function viewTruth(type, view) {
  const bytes = Buffer.from(view.buffer, view.byteOffset, view.byteLength).toString('hex');
  return { kind: 'typedarray', type, bytes, length: view.length };
}

function resizables() {
  const resizable = hold('bufferResizable', new ArrayBuffer(4, { maxByteLength: 4096 }), {
    kind: 'arraybuffer', bytes: '0000000000000008', resizable: true, max: 4096,
  });
  hold('tracking', new Uint8Array(resizable, 1), { kind: 'typedarray', type: 'Uint8', bytes: '00000000000008', length: 7, buffer: '@bufferResizable' });
  hold('trackingView', new DataView(resizable, 2), { kind: 'dataview', bytes: '000000000008', buffer: '@bufferResizable' });
  hold('fixedOnResizable', new Uint8Array(resizable, 0, 2), { kind: 'typedarray', type: 'Uint8', bytes: '0000', length: 2, buffer: '@bufferResizable' });
  const cut = new ArrayBuffer(8, { maxByteLength: 8 });
  hold('outOfBounds', new Uint8Array(cut, 4, 4), { kind: 'typedarray', type: 'Uint8', bytes: '', length: 0 });
  cut.resize(6);
  resizable.resize(8);
  new Uint8Array(resizable)[7] = 8;
  const growable = hold('bufferGrowable', new SharedArrayBuffer(2, { maxByteLength: 64 }), {
    kind: 'arraybuffer', bytes: '000500', shared: true, resizable: true, max: 64,
  });
  hold('trackingGrowable', new Uint8Array(growable), { kind: 'typedarray', type: 'Uint8', bytes: '000500', length: 3, buffer: '@bufferGrowable' });
  growable.grow(3);
  new Uint8Array(growable)[1] = 5;
}

// closures holds functions with what they see, from the innermost scope outward.
function closures() {
  const outer = 'outer';
  let counter = 41;
  function inner(own) {
    const mine = own;
    {
      let block = 'block';
      return () => [mine, block, counter, outer];
    }
  }
  const seen = inner(held.key);
  counter++;
  hold('closure', seen, {
    kind: 'closure', scopes: [{ block: '"block"' }, { mine: '@key' }, { outer: '"outer"', counter: '42' }],
  });
  const lines = [];
  const scope = {};
  for (let i = 0; i < 100; i++) {
    lines.push(`let v${i} = ${i};`);
    scope['v' + i] = String(i);
  }
  const wide = new Function(`${lines.join('')} return () => ${lines.map((_, i) => 'v' + i).join('+')};`)();
  hold('wide', wide, { kind: 'closure', scopes: [scope] });
  const caught = (() => {
    try {
      throw held.key;
    } catch (problem) {
      return () => problem;
    }
  })();
  (function again() {
    hold('ownName', () => again, { kind: 'closure', scopes: [{ again: 'again' }] });
  })();
  try {
    hold('unready', () => later, { kind: 'closure', scopes: [{ later: 'hole' }] });
    throw held.key;
    let later = 1;
  } catch {}
  (function () { hold('seesThis', () => this, { kind: 'closure', scopes: [{ this: '@key' }] }); }).call(held.key);
  const within = new Function('o', 'with (o) { let own = o; return () => own; }')(held.key);
  hold('within', within, { kind: 'closure', scopes: [{ own: '@key' }, {}, { o: '@key' }] });
  const sloppyEval = new Function('code', 'let own = 1; eval(code); return () => own + added;')('var added = 2');
  hold('sloppyEval', sloppyEval, { 
    kind: 'closure',
    scopes: [{ own: '1', code: '"var added = 2"', added: '2', this: 'Object', arguments: 'Object', '.new.target': 'undefined' }],
  });
  hold('caught', caught, { kind: 'closure', scopes: [{ problem: '@key' }] });
}

function strings() {
  const long = 'abcdefghijklmnopqrstuvwxyz'.repeat(3);
  const forms = {
    empty: '', one: 'é', two: 'Привет', pair: '𝒳y', lone: '\ud800',
    cons: long + held.key.id + 'tail', sliced: long.slice(5, 60), slicedTwo: ('ЖЗ'.repeat(20)).slice(3, 30),
    deep: Array.from({ length: 300 }, (_, i) => 'p' + i + ',').reduce((a, b) => a + b),
  };
  const thin = long + 'thin' + process.pid;
  forms.thin = thin;
  truths[{ [thin]: 'string_thin' }[thin]] = null; // as a key it becomes a name that V8 keeps once
  for (const [name, value] of Object.entries(forms)) {
    const text = name === 'lone' ? '\ufffd' : value;
    hold('string_' + name, value, { kind: 'string', text, length: value.length });
  }
}

function finish() {
  fs.writeSync(1, JSON.stringify(truths) + '\nready\n');
  wait();
}

function wait() {
  const byte = Buffer.alloc(1);
  while (fs.readSync(0, byte) > 0);
}

async function main() {
  collections();
  promises();
  errors();
  await asyncErrors();
  shapes();
  primitives();
  callables();
  buffers();
  closures();
  strings();
  const module = await import('./lib/exports.mjs');
  hold('inModule', module.fn, { kind: 'closure', scopes: [{ hidden: '"in a module"' }] });
  hold('namespace', module, { kind: 'namespace', exports: module.truth });
  const running = generators();
  await null;
  await null;
  await null;
  running.next();
}
main();
