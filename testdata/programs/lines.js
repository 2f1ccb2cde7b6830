// lines.js FORM [--tier=TIER] [--depth=N]: calls unit from known places.
//
// unit spends nearly all time, is never inlined, and is called from places whose
// stacks the program has recorded with new Error().stack. The ready line has them,
// those below unit, and how many of ten units each place has. FORM:
//   inlined  functions that call one another N deep, which TIER inlines in spin
//   checks   functions that TIER inlines in spin, which check much and call nothing; the
//            ready line has their names and how many of ten calls each has
//   osr      a loop that is compiled while it runs
//   huge     functions on and after a first line of a megabyte
//   hot      a function that TIER runs, of which one line does nearly all the work
// --list prints the forms. With --seconds=N, inlined ends after so long. Run it with
// --allow-natives-syntax.
'use strict';

const { performance } = require('perf_hooks');
const vm = require('vm');
const tier = require('./lib/tier');
const truth = require('./lib/truth');
const { ready, say } = require('./lib/ready');

const rounds = 2000; // of unit: some 100 microseconds
const state = { seed: 1, record: null, calls: 0 };
const stacks = new Map(); // by their text
const order = [0, 1, 0, 2, 0, 1, 0, 2, 0, 1]; // 5, 3 and 2 of 10
const names = ['half', 'third', 'fifth'];

function unit(n) {
  if (state.record !== null) state.record();
  let x = state.seed + n;
  for (let i = rounds; i > 0; i--) {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
  }
  state.seed = x;
  return x;
}

// remember records the stack below unit, as far as it is in the scripts of make.
function remember() {
  const calls = truth.calls(unit).filter((call) => call.file.startsWith('/lines/'));
  const text = JSON.stringify(calls);
  const known = stacks.get(text);
  if (known) known.units++;
  else stacks.set(text, { calls, units: 1 });
}

function make(lines, filename) {
  return new vm.Script(lines.join('\n'), { filename }).runInThisContext()(unit);
}

// inlined returns a function that does ten units through functions that call one
// another, and those functions. Some of them have a name that is not in the source.
function inlined(depth) {
  const lines = ['(function (unit) {'];
  for (const name of names) {
    for (let d = 1; d <= depth; d++) {
      lines.push(`function ${name}${d}(n) {`, `  return ${d === 1 ? 'unit' : name + (d - 1)}(n) + 1;`, '}');
    }
  }
  const tiny = names.flatMap((name) => Array.from({ length: depth }, (_, i) => `${name}${i + 1}`));
  lines.push('function spin(n) {', ...order.map((i) => `  ${names[i]}${depth}(n);`), '}');
  for (const name of tiny.filter((name) => name.startsWith('fifth'))) {
    lines.push(`Object.defineProperty(${name}, 'name', { value: 'renamed ${name}' });`);
  }
  lines.push(`return { spin, tiny: [${tiny}] };`, '})');
  return make(lines, '/lines/inlined.js');
}

const forms = {
  inlined(depth) {
    const { spin, tiny } = inlined(depth);
    const { before, after } = tier.force(tier.asked());
    for (let i = 0; i < 3; i++) {
      [spin, ...tiny].forEach(before);
      state.record = i === 0 ? remember : null;
      spin(1);
    }
    after(spin);
    for (let i = 0; i < 3; i++) spin(1);
    ready({ pid: process.pid, stacks: [...stacks.values()], tier: tier.word(spin), tiny: tiny.map(tier.word) });
    const seconds = option('seconds', Infinity);
    for (const begin = performance.now(); performance.now() - begin < seconds * 1000;) {
      for (let i = 0; i < 1000; i++) spin(1);
    }
  },
  checks() {
    const lines = ['(function () {'];
    for (const name of names) {
      lines.push(`function ${name}(s) {`, '  s.a = s.a * 3 + s.b & 1023;', '}');
    }
    lines.push('function spin(s) {', '  for (let i = 0; i < 10000; i++) {', ...order.map((i) => `    ${names[i]}(s);`), '  }', '}');
    lines.push(`return { spin, tiny: [${names}] };`, '})');
    const { spin, tiny } = new vm.Script(lines.join('\n'), { filename: '/lines/checks.js' }).runInThisContext()();
    const { before, after } = tier.force(tier.asked());
    const values = { a: 1, b: 2 };
    for (let i = 0; i < 3; i++) {
      [spin, ...tiny].forEach(before);
      spin(values);
    }
    after(spin);
    spin(values);
    const functions = names.map((name, of) => ({ name, units: order.filter((i) => i === of).length }));
    ready({ pid: process.pid, functions, tier: tier.word(spin) });
    for (;;) spin(values);
  },
  osr() {
    const lines = ['(function (unit) {', 'return function entered(n) {', '  for (;;) {', '    n += 1;', '    unit(n);', '    n |= 0;', '  }', '};', '})'];
    const entered = make(lines, '/lines/osr.js');
    state.record = () => {
      remember();
      ready({ pid: process.pid, stacks: [...stacks.values()] });
      state.record = null;
    };
    entered(1);
  },
  hot() {
    const lines = [
      '(function (edge) {', 'return function hot(n) {', '  let x = edge(n);', '  x += edge(n);',
      '  for (let i = 0; i < 20000; i++) { x ^= x << 13; x ^= x >>> 17; x ^= x << 5; }',
      '  return edge(x) + edge(n);', '};', '})',
    ];
    const edge = (n) => n | 0;
    new Function('f', '%NeverOptimizeFunction(f)')(edge);
    const hot = new vm.Script(lines.join('\n'), { filename: '/lines/hot.js' }).runInThisContext()(edge);
    const { before, after } = tier.force(tier.asked());
    before(hot);
    hot(1);
    hot(2);
    after(hot);
    hot(3);
    ready({ pid: process.pid, line: 5, tier: tier.word(hot) });
    for (let i = 0; ; i++) hot(i);
  },
  huge() {
    const far = `/*${'x'.repeat(1 << 20)}*/`;
    const lines = [`(function (unit) { ${far} function first(n) { return unit(n) + 1; }`, 'function second(n) {', '  return first(n) + 1;', '}', 'return second; })'];
    const second = make(lines, '/lines/huge.js');
    state.record = remember;
    second(1);
    state.record = null;
    ready({ pid: process.pid, stacks: [...stacks.values()] });
    for (;;) second(1);
  },
};

// option returns the number that the argument --NAME= gives.
function option(name, otherwise) {
  const given = process.argv.find((arg) => arg.startsWith(`--${name}=`));
  return given ? Number(given.slice(`--${name}=`.length)) : otherwise;
}

function main(form) {
  if (form === '--list') {
    Object.keys(forms).forEach((name) => say(name));
    return;
  }
  if (!forms[form]) throw new Error(`no form ${form} (--list prints them)`);
  new Function('f', '%NeverOptimizeFunction(f)')(unit);
  forms[form](option('depth', 1));
}

main(process.argv[2]);
