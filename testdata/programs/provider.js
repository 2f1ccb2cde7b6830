// Checks npm/dtrace-provider's interface. Then it has a provider with probes that are enabled, and
// on SIGUSR2 fires each of them and prints how many callbacks ran and the counters.
//
// usage: node provider.js FOLDER: FOLDER/node_modules has the package.
'use strict';
process.env.NODE_DTRACE_PROVIDER_REQUIRE = 'hard';
const assert = require('assert');
const fs = require('fs');
const path = require('path');
const d = require(path.join(process.argv[2], 'node_modules', 'dtrace-provider'));

const mapped = () => fs.readFileSync('/proc/self/maps', 'latin1').split('\n').filter((line) => line.includes('/memfd:usdt-'));
const open = () => fs.readdirSync('/proc/self/fd').filter((fd) => {
  try {
    return fs.readlinkSync(`/proc/self/fd/${fd}`).startsWith('/memfd:usdt-');
  } catch {
    return false;
  }
});

function check() {
  const p = d.createDTraceProvider('check', 'module');
  assert(p instanceof d.DTraceProvider);
  assert.throws(() => d.createDTraceProvider(), TypeError);
  assert.throws(() => d.createDTraceProvider('a', 1), TypeError);
  const one = p.addProbe('one', 'int', 'char *', 'json');
  assert.strictEqual(p.one, one);
  assert.strictEqual(one.__prov__, p);
  one.extra = 1; // as bunyan does
  const never = () => assert.fail('nobody watches');
  assert.strictEqual(one.fire(never), undefined);
  assert.strictEqual(mapped().length, 0);
  p.enable();
  p.enable();
  assert.strictEqual(mapped().length, 3);
  assert.strictEqual(open().length, 1);
  assert.strictEqual(one.fire(never, 1, 2), undefined);
  assert.strictEqual(p.fire('one', never), true);
  assert.strictEqual(p.fire('other', never), undefined);
  assert.throws(() => p.fire(1, never), TypeError);
  assert.throws(() => p.fire('one'), TypeError);
  const two = p.addProbe('two');
  p.enable();
  assert.strictEqual(mapped().length, 6);
  assert.strictEqual(p.removeProbe(two), true);
  assert.throws(() => p.removeProbe(two), Error);
  assert.strictEqual(p.two, undefined);
  assert.strictEqual(mapped().length, 3);
  assert.strictEqual(two.fire(never), undefined);
  p.disable();
  assert.strictEqual(mapped().length, 0);
  assert.strictEqual(open().length, 0);
  assert.strictEqual(one.fire(never), undefined);
  p.enable();

  // As if the kernel counted a tracer.
  one._counters[one._index] = 1;
  const seen = [];
  const values = function (...all) {
    seen.push(this, ...all);
    return [1];
  };
  assert.strictEqual(one.fire(values, 'a', 'b'), true);
  assert.deepStrictEqual(seen, [one, 'a', 'b']);
  assert.strictEqual(one.fire(() => ({})), undefined);
  assert.strictEqual(one.fire(() => [Number.NaN, 'x'.repeat(1 << 20), { deep: 'ü' }, 'more']), true);
  const loop = {};
  loop.loop = loop;
  assert.strictEqual(one.fire(() => [undefined, null, loop]), true);
  assert.throws(() => one.fire(() => { throw new Error('of the program'); }), /of the program/);
  assert.strictEqual(one.fire(() => { p.disable(); return [1]; }), undefined);
  assert.strictEqual(mapped().length, 0);
}
check();

const provider = d.createDTraceProvider('shop');
const probes = [
  provider.addProbe('sold', 'char *', 'int', 'json'),
  provider.addProbe('many', ...Array(32).fill('int')),
  provider.addProbe('none'),
];
provider.enable();
process.on('SIGUSR2', () => {
  const calls = [0, 0, 0];
  probes[0].fire((name) => { calls[0]++; return [name, -7, { price: 9007199254740991 }]; }, 'Äpfel');
  probes[1].fire(() => { calls[1]++; return Array.from({ length: 32 }, (_, i) => i); });
  probes[2].fire(() => { calls[2]++; return []; });
  console.log('done ' + JSON.stringify({ Calls: calls, Counters: probes.map((p) => p._counters[p._index]) }));
});
setInterval(() => {}, 1 << 30);
console.log('ready');
