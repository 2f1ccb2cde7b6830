'use strict';
// Makes each error twice at the same place, prints the stack of one, which has V8
// format it, and the address of the other, whose calls V8 has only recorded.
const fs = require('fs');

class Base {
  constructor() { this.error = new Error('in a constructor'); }
  static make() { return new Error('static'); }
  get got() { return new Error('got'); }
  set put(to) { to.error = new Error('put'); }
  #hidden() { return new Error('private'); }
  open() { return this.#hidden(); }
  [Symbol.iterator]() { return new Error('symbol'); }
  *steps() { yield new Error('in a generator'); }
  field = new Error('field');
}
class Derived extends Base {
  constructor() { super(); this.own = new Error('derived'); }
  open() { return super.open(); }
}
class Named extends Error {
  constructor(message) { super(message); this.name = 'Renamed'; }
}
function Old() { this.made = new Error('old'); }
Old.prototype.method = function () { return new Error('prototype'); };
function shared() { return new Error('shared'); }
const twice = { one: shared, two: shared };
const alias = { other: shared };
Number.prototype.method = function () { return new Error('number'); };
String.prototype.method = function () { return new Error('string'); };
Symbol.prototype.method = function () { return new Error('symbol'); };
const proxy = new Proxy({}, { get(target, name) { return new Error('of ' + String(name)); } });

const named = (name) => Object.assign(new Error('message'), { name });
const saying = (message) => Object.assign(new Error('at first'), { message });

const cases = {
  plain: () => new Error('plain'),
  empty: () => new Error(),
  renamed: () => new Named('by hand'),
  range: () => new RangeError('too far'),
  aggregate: () => new AggregateError([], 'many'),
  thrown: () => { try { null.member; } catch (e) { return e; } },
  parsed: () => { try { JSON.parse('{'); } catch (e) { return e; } },
  deep: () => { const down = (n) => (n ? down(n - 1) : new Error('deep')); return down(20); },
  constructed: () => new Base().error,
  field: () => new Base().field,
  initialized: () => { class Holder { static made = new Error('initialized'); } return Holder.made; },
  derived: () => new Derived().own,
  base: () => new Derived().error,
  inherited: () => new Derived().open(),
  statically: () => Base.make(),
  got: () => new Base().got,
  put: () => { const to = {}; new Base().put = to; return to.error; },
  symbol: () => new Base()[Symbol.iterator](),
  stepped: () => new Base().steps().next().value,
  old: () => new Old().made,
  prototype: () => new Old().method(),
  two: () => twice.two(),
  alias: () => alias.other(),
  number: () => (5).method(),
  string: () => 'text'.method(),
  called: () => shared.call(null),
  bound: () => shared.bind(alias)(),
  applied: () => Reflect.apply(shared, [1], []),
  reflected: () => Reflect.construct(Old, []).made,
  proxied: () => proxy.member,
  sorted: () => { let e; [2, 1].sort(() => { e = new Error('sorted'); return 0; }); return e; },
  replaced: () => { let e; 'x'.replace(/x/, () => { e = new Error('replaced'); return ''; }); return e; },
  revived: () => { let e; JSON.parse('[1]', () => { e = new Error('revived'); }); return e; },
  evaluated: () => eval('new Error("evaluated")'),
  nested: () => eval('eval("new Error(\\"nested\\")")'),
  compiled: () => new Function('return new Error("compiled")')(),
  url: () => eval('new Error("url")\n//# sourceURL=named.js'),
  lines: () => new Error('first\nsecond'),
  unicode: () => new Error('größer 🚀'),
  numberName: () => named(7),
  fractionName: () => named(-1.5),
  zeroName: () => named(-0),
  largeName: () => named(1e21),
  bigName: () => named(-12n),
  nullName: () => named(null),
  undefinedName: () => named(undefined),
  trueName: () => named(true),
  emptyName: () => named(''),
  withoutText: () => Object.assign(saying(''), { name: '' }),
  setterName: () => Object.defineProperty(named(''), 'name', { set() {} }),
  laterMessage: () => saying('later'),
  numberMessage: () => saying(0.5),
  nullMessage: () => saying(null),
  laterThrown: () => { try { null.member; } catch (e) { e.message = 'later'; return e; } },
  laterCaught: () => { try { throw saying('x'); } catch (e) { e.message = 'later'; return e; } },
  undefinedMessage: () => saying(undefined),
};

const made = {};
for (const name of Object.keys(cases)) {
  made[name] = [];
  for (let i = 0; i < 2; i++) made[name].push(cases[name]());
}
for (const [name, [read, fresh]] of Object.entries(made)) {
  fs.writeSync(1, JSON.stringify({ name, class: read.constructor.name, stack: read.stack }) + '\n');
  %DebugPrint(fresh);
}
fs.writeSync(1, 'ready\n');
fs.readSync(0, Buffer.alloc(1));
