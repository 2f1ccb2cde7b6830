// print.js: waits for ever in keep(plain, awkward), for a core to be taken.
//
// Its ready line has plain, which JSON can hold, as it is; and what jsprint
// shows of each property of awkward.
'use strict';

const { ready } = require('./lib/ready');

class Base { constructor(n) { this.n = n; } }
class Derived extends Base {
  #secret = 'kept';
  constructor(n) { super(n); this.twice = 2 * n; }
  secret() { return this.#secret; }
}
function Old() { this.old = true; }

const wide = {};
for (let i = 0; i < 60; i++) wide['key' + i] = i * 1.5;
const removed = { a: 1, b: 2, c: 3, d: { deep: ['x', [1, 2, [3]]] } };
delete removed.b;
let joined = '';
for (let i = 0; i < 50; i++) joined += 'part ' + i + ', ';

const plain = {
  small: [0, -1, 1, 2 ** 30, -(2 ** 31), 2 ** 31 - 1],
  large: [2 ** 31, 1e21, 1.5, -2.25, 0.1, 1e-7, 5e-324, Number.MAX_VALUE, 2 ** 53],
  doubles: [0.5, 1.5, 2.5], mixed: [1, 'two', null, true, false, { x: 1 }, []],
  texts: ['', 'latin \u00e9', 'wide \u20ac \u{1f600}', 'quote " \\ \n', joined, joined.slice(20, 60)],
  nested: { a: { b: { c: { d: { e: 'deep' } } } } },
  wide, removed, 'odd key "x"': 1, 7: 'seven', empty: {}, none: [],
};

function named() { return 1; }
const shared = { of: 'both' };
const circular = { name: 'circle' };
circular.self = circular;
const sparse = [1, , 3];
sparse.length = 6;
const symbols = { [Symbol('tag')]: 1, [Symbol.iterator]: null };

const texts = {
  undefined: [undefined, 'undefined'], negativeZero: [-0, '-0'], notANumber: [NaN, 'NaN'], infinite: [-Infinity, '-Infinity'],
  big: [-123456789012345678901234567890n, '-123456789012345678901234567890n'],
  symbol: [Symbol('s'), 'Symbol(s)'], wellKnown: [Symbol.iterator, 'Symbol.iterator'],
  named: [named, 'function named'], arrow: [() => 1, 'function <anonymous> (as texts.arrow)'],
  derived: [new Derived(3), 'Derived {\n    "n": 3,\n    #secret: "kept",\n    "twice": 6,\n}'],
  old: [new Old(), 'Old {\n    "old": true,\n}'],
  date: [new Date(86400000), '1970-01-02T00:00:00.000Z'], invalid: [new Date(NaN), 'Invalid Date'],
  regexp: [/a\/b/gi, '/a\\/b/gi'],
  map: [new Map([['k', 1], [shared, shared]]), 'Map(2) {\n    "k" => 1,\n    {\n        "of": "both",\n    } => {\n        "of": "both",\n    },\n}'],
  set: [new Set([1, 'x']), 'Set(2) {\n    1,\n    "x",\n}'],
  boxed: [new String('abc'), 'String {\n    <value>: "abc",\n}'],
  fulfilled: [Promise.resolve(5), 'Promise <fulfilled> {\n    <value>: 5,\n}'],
  sparse: [sparse, '[\n    1,\n    <1 holes>,\n    3,\n    <3 holes>,\n]'],
  symbols: [symbols, '{\n    [tag]: 1,\n    [Symbol.iterator]: null,\n}'],
  circular: [circular, '{\n    "name": "circle",\n    "self": [circular],\n}'],
  accessor: [{ get x() { return 1; }, y: 2 }, '{\n    "x": <getter>,\n    "y": 2,\n}'],
  accessors: [{ set x(v) {}, get y() { return 1; }, set y(v) {} }, '{\n    "x": <setter>,\n    "y": <accessor>,\n}'],
  surrogates: ['a\udc00\ud800b\u{1f600}', '"a\\udc00\\ud800b\u{1f600}"'],
  noPrototype: [Object.assign(Object.create(null), { a: 1 }), '{\n    "a": 1,\n}'],
  global: [Object.getPrototypeOf(new Derived(1)).constructor, 'function Derived'],
};
const awkward = {};
const facts = {};
for (const [name, [value, text]] of Object.entries(texts)) {
  awkward[name] = value;
  facts[name] = text;
}
awkward.paths = {
  'a.b': 5, 'c]': 6, [Symbol.iterator]: 7, __proto__: { inherited: 8 },
  map: new Map([['a key', 9], [10, 11], [Symbol.iterator, 12], [{}, 13]]), 0: [14],
};
Object.assign(facts, {
  'paths["a.b"]': '5', 'paths[a.b]': '5', "paths['c]']": '6', 'paths[Symbol.iterator]': '7', 'paths.__proto__.inherited': '8',
  'paths.map["a key"]': '9', 'paths.map[10]': '11', 'paths.map[Symbol.iterator]': '12', 'paths[0][0]': '14', 'paths.0.length': '1',
});

// Where the runtime still lets a global and closures be optimized away, this is
// what holds them: the frame of the wait.
function keep(held, odd) {
  ready({ plain: held, texts: facts });
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  return [held, odd];
}
keep(plain, awkward);
