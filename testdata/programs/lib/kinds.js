// Functions whose names are hard to find, print or believe: one per kind, each
// calls spin from its own body. call runs it; a kind's truth is what V8 says of
// the function that called spin.
'use strict';

const EventEmitter = require('events');
const util = require('util');
const vm = require('vm');

// script runs text as a file of that name and returns its value.
const script = (name, text) => new vm.Script(text, { filename: `/names/${name}.js` }).runInThisContext();

// captured returns a function with count variables that a closure of its holds.
function captured(count, spin) {
  const names = Array.from({ length: count }, (_, i) => `v${i}`);
  return script(`captured${count}`, `(spin) => function captures${count}() {
  let ${names.map((name, i) => `${name} = ${i}`).join(', ')};
  const sum = () => ${names.join(' + ')};
  spin();
  return sum();
}`)(spin);
}

// named returns a function of that name, which must be an identifier.
const named = (name, file, spin) => script(file, `(spin) => function ${name}() { return spin() + 1; }`)(spin);

function plain(spin) {
  function declared() { return spin() + 1; }
  const arrow = () => spin() + 1;
  var expression = function () { return spin() + 1; };
  const alias = function itsOwnName() { return spin() + 1; };
  const take = (f) => f();
  return {
    declaration: () => declared(),
    'arrow in a const': () => arrow(),
    'function in a var': () => expression(),
    'named expression': () => alias(),
    'anonymous arrow argument': () => take(() => spin() + 1),
    'anonymous function argument': () => take(function () { return spin() + 1; }),
    'arrow that is returned': () => (() => () => spin() + 1)()(),
    'anonymous iife': () => (function () { return spin() + 1; })(),
    'named iife': () => (function invoked() { return spin() + 1; })(),
    'nested closure': () => (function first() { return function second() { return () => spin() + 1; }; })()()(),
    'default parameter': () => (function defaults(a = spin()) { return a + 1; })(),
    'arrow as a default': () => (function defaulted(f = () => spin() + 1) { return f(); })(),
    'destructured default': () => { const { f = () => spin() + 1 } = {}; return f(); },
    'logical assignment': () => { let late; late ??= () => spin() + 1; return late(); },
    'tagged template': () => (function tag() { return spin() + 1; })`text`,
    async: () => { (async function later() { return spin() + 1; })(); },
    'async arrow': () => { const later = async () => spin() + 1; later(); },
    generator: () => (function* yields() { yield spin() + 1; })().next(),
    'async generator': () => { (async function* yieldsLater() { yield spin() + 1; })().next(); },
    bound: () => (function bindable() { return spin() + 1; }).bind(null)(),
    'bound twice': () => (function rebound() { return spin() + 1; }).bind(null).bind(null)(),
  };
}

function assigned(spin) {
  function Legacy() {}
  Legacy.prototype.method = function () { return spin() + 1; };
  Legacy.prototype.arrow = () => spin() + 1;
  Legacy.fixed = function () { return spin() + 1; };
  const exports = {};
  exports.f = function () { return spin() + 1; };
  module.exports.hidden = () => spin() + 1;
  const { hidden } = module.exports;
  delete module.exports.hidden;
  const a = { b: { c: {} } };
  a.b.c.d = function () { return spin() + 1; };
  const list = [function () { return spin() + 1; }, () => spin() + 1];
  const o = {
    property: function () { return spin() + 1; },
    arrow: () => spin() + 1,
    renamed: function real() { return spin() + 1; },
    shorthand() { return spin() + 1; },
    get read() { return spin() + 1; },
    set write(v) { spin(); },
    async awaits() { return spin() + 1; },
    *yields() { yield spin() + 1; },
    42() { return spin() + 1; },
  };
  return {
    'prototype method': () => new Legacy().method(),
    'prototype arrow': () => new Legacy().arrow(),
    'function as a static': () => Legacy.fixed(),
    'exports.f': () => exports.f(),
    'module.exports arrow': () => hidden(),
    'deep property': () => a.b.c.d(),
    'function in an array': () => list[0](),
    'arrow in an array': () => list[1](),
    'property function': () => o.property(),
    'property arrow': () => o.arrow(),
    'property of another name': () => o.renamed(),
    shorthand: () => o.shorthand(),
    getter: () => o.read,
    setter: () => { o.write = 1; },
    'async shorthand': () => { o.awaits(); },
    'generator shorthand': () => o.yields().next(),
    'numeric key': () => o[42](),
  };
}

function classes(spin) {
  class Base { constructor() { this.n = spin() + 1; } }
  class Derived extends Base { constructor() { super(); this.more = this.n; } }
  class Implicit extends Base {}
  class Members {
    field = () => spin() + 1;
    method() { return spin() + 1; }
    get read() { return spin() + 1; }
    static fixed() { return spin() + 1; }
    static get fixedRead() { return spin() + 1; }
    #secret() { return spin() + 1; }
    get #hidden() { return spin() + 1; }
    static #fixedSecret() { return spin() + 1; }
    viaSecret() { return [this.#secret()].length; }
    viaHidden() { return [this.#hidden].length; }
    static viaFixed() { return [Members.#fixedSecret()].length; }
    async awaits() { return spin() + 1; }
    *yields() { yield spin() + 1; }
    static async *both() { yield spin() + 1; }
  }
  const members = new Members();
  const Unnamed = class { method() { return spin() + 1; } };
  return {
    constructor: () => new Base(),
    'constructor by super': () => new Derived(),
    'implicit constructor': () => new Implicit(),
    'anonymous class constructor': () => new (class { constructor() { spin(); } })(),
    'field arrow': () => members.field(),
    'field initializer': () => new (class { n = spin() + 1; })(),
    'static field initializer': () => class { static n = spin() + 1; },
    'static block': () => class { static { spin(); } },
    method: () => members.method(),
    'class getter': () => members.read,
    static: () => Members.fixed(),
    'static getter': () => Members.fixedRead,
    'private method': () => members.viaSecret(),
    'private getter': () => members.viaHidden(),
    'private static': () => Members.viaFixed(),
    'async method': () => { members.awaits(); },
    'generator method': () => members.yields().next(),
    'static async generator': () => { Members.both().next(); },
    'method of a class expression': () => new Unnamed().method(),
  };
}

function computed(spin) {
  const symbol = Symbol('described');
  const o = {
    ['comp' + 'uted']() { return spin() + 1; },
    [symbol]() { return spin() + 1; },
    [Symbol()]() { return spin() + 1; },
    [Symbol.toPrimitive]() { return spin() + 1; },
    get ['comp' + 'Read']() { return spin() + 1; },
    ['arrow' + 1]: () => spin() + 1,
  };
  const unnamed = Object.getOwnPropertySymbols(o).find((s) => s.description === undefined);
  class Keys {
    ['class' + 'Key']() { return spin() + 1; }
    static ['static' + 'Key']() { return spin() + 1; }
    *[Symbol.iterator]() { yield spin() + 1; }
  }
  const renamed = Object.defineProperty(function before() { return spin() + 1; }, 'name', { value: 'after' });
  const stripped = function lost() { return spin() + 1; };
  delete stripped.name;
  class Titled {
    static name = 'title of a class';
    constructor() { this.value = spin() + 1; }
  }
  const owner = Object.defineProperty(function ownerOfMany() { return spin() + 1; }, 'name', { value: 'renamed owner' });
  for (let i = 0; i < 60; i++) owner[`property${i}`] = 'name';
  const odd = Object.defineProperty(function number() { return spin() + 1; }, 'name', { value: 7 });
  const getter = Object.defineProperty(function asked() { return spin() + 1; }, 'name', { get: () => 'never called' });
  return {
    'computed key': () => o.computed(),
    'symbol key': () => o[symbol](),
    'symbol without description': () => o[unnamed](),
    'well-known symbol': () => o * 2,
    'computed getter': () => o.compRead,
    'computed arrow': () => o.arrow1(),
    'computed class key': () => new Keys().classKey(),
    'computed static key': () => Keys.staticKey(),
    'symbol generator': () => [...new Keys()],
    'name redefined': () => renamed(),
    'name redefined, among other properties': () => owner(),
    'name of a static field': () => new Titled().value,
    'name deleted': () => stripped(),
    'name that is a number': () => odd(),
    'name that is a getter': () => getter(),
  };
}

function letters(spin) {
  const long = (n) => `long_${'n'.repeat(n - 5)}`;
  const keys = {
    'a b'() { return spin() + 1; },
    'semi;colon'() { return spin() + 1; },
    'line\nbreak'() { return spin() + 1; },
    '"quoted" <tag> & \'more\''() { return spin() + 1; },
    'back\\slash::path/of.things'() { return spin() + 1; },
    '🚀 launch'() { return spin() + 1; },
    'lone \ud800 surrogate'() { return spin() + 1; },
    '\u0001control\u007f'() { return spin() + 1; },
    ''() { return spin() + 1; },
  };
  const kinds = {
    Cyrillic: named('считать', 'cyrillic', spin),
    CJK: named('計算する', 'cjk', spin),
    'Latin-1': named('naïveté', 'latin1', spin),
    'outside the BMP': named('𝒻𝓊𝓃', 'astral', spin),
    'dollar and underscore': named('$_$', 'dollar', spin),
    '90 letters': named(long(90), 'long90', spin),
    '300 letters': named(long(300), 'long300', spin),
    '90 two-byte letters': named('я'.repeat(90), 'longtwobyte', spin),
    'two-byte source': script('источник', "(spin) => function ascii() { return 'я' && spin() + 1; }")(spin),
  };
  const wrapped = Object.entries(keys).map(([key, f]) => [`key ${JSON.stringify(key)}`, () => f()]);
  return { ...Object.fromEntries(wrapped), ...kinds };
}

function dynamic(spin) {
  global.spinForEval = spin;
  const direct = eval('(function inDirectEval() { return spin() + 1; })');
  const indirect = (0, eval)('(function inIndirectEval() { return spinForEval() + 1; })');
  const located = (0, eval)('(function located() { return spinForEval() + 1; })\n//# sourceURL=/virtual/located.js');
  const context = vm.createContext({ spin });
  const elsewhere = vm.runInContext('(function elsewhere() { return spin() + 1; })', context, '/names/elsewhere.js');
  return {
    'new Function': () => new Function('spin', 'return spin() + 1')(spin),
    'direct eval': () => direct(),
    'indirect eval': () => indirect(),
    'eval code itself': () => (0, eval)('spinForEval() + 1'),
    'source URL': () => located(),
    'vm.Script': () => script('inScript', '(spin) => function inScript() { return spin() + 1; }')(spin)(),
    'script code itself': () => script('top', 'spinForEval() + 1'),
    'offset in its file': () => new vm.Script('(spin) => function shifted() { return spin() + 1; }',
      { filename: '/names/shifted.js', lineOffset: 99, columnOffset: 7 }).runInThisContext()(spin)(),
    'another context': () => elsewhere(),
    'compileFunction': () => vm.compileFunction('return spin() + 1', ['spin'], { filename: '/names/compiled.js' })(spin),
    '8 captured variables': captured(8, spin),
    '80 captured variables': captured(80, spin),
    '200 captured variables': captured(200, spin),
  };
}

function called(spin) {
  const proxy = new Proxy(function target() {}, {
    get() { return spin() + 1; },
    has: () => spin() > 0,
    apply: function applied() { return spin() + 1; },
  });
  const emitter = new EventEmitter().on('go', spin);
  return {
    'JSON reviver': () => JSON.parse('1', (key, value) => spin() + value),
    'JSON replacer': () => JSON.stringify({}, function replacer(key, value) { spin(); return value; }),
    toJSON: () => JSON.stringify({ toJSON() { return spin() + 1; } }),
    'proxy get': () => proxy.any,
    'proxy has': () => 'any' in proxy,
    'proxy apply': () => proxy(),
    toString: () => `${{ toString() { return `${spin()}`; } }}`,
    valueOf: () => 1 + { valueOf() { return spin(); } },
    'sort comparator': () => [2, 1].sort((a, b) => spin() * 0 + a - b),
    'map callback': () => [1].map((v) => spin() + v),
    'replace callback': () => 'a'.replace(/a/, () => `${spin()}`),
    'promise executor': () => new Promise((done) => done(spin())),
    'Array.from callback': () => Array.from([1], function each(v) { return spin() + v; }),
    'Function.prototype.call': () => (function byCall() { return spin() + 1; }).call(null),
    'Reflect.construct': () => Reflect.construct(function Built() { spin(); }, []),
    "node's emit": () => emitter.emit('go'),
    "node's inspect": () => util.inspect({ [util.inspect.custom]: spin }),
    'accessor by defineProperty': () => Object.defineProperty({}, 'x', { get: function defined() { return spin() + 1; } }).x,
    'instanceof hook': () => ({}) instanceof { [Symbol.hasInstance]() { return spin() > 0; } },
  };
}

const groups = [plain, assigned, classes, computed, letters, dynamic, called];

// kinds returns every kind's call by its title.
module.exports = { kinds: (spin) => Object.assign({}, ...groups.map((group) => group(spin))) };
