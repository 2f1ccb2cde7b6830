// Prints, in nanoseconds of CPU time, what a probe's fire costs that nobody watches: of a stub,
// of npm/dtrace-provider, and of that after it was watched. Each is the least
// of several rounds.
//
// usage: node fire.js PACKAGES
'use strict';
process.env.NODE_DTRACE_PROVIDER_REQUIRE = 'hard';
const path = require('path');
const d = require(path.join(process.argv[2], 'node_modules', 'dtrace-provider'));
const CALLS = 5e6;
const ROUNDS = 7;

// Each kind has a function of its own, so that V8 optimizes each for itself.
const rounds = (probe) => new Function('probe', 'values', 'calls', `
  const begin = process.cpuUsage();
  for (let i = 0; i < calls; i++)
    probe.fire(values, 'text', probe, i, null);
  const { user, system } = process.cpuUsage(begin);
  return (user + system) * 1000 / calls;`).bind(null, probe);

const values = (text) => [text];
const provider = d.createDTraceProvider('fire');
const [fresh, used] = [provider.addProbe('fresh', 'char *'), provider.addProbe('used', 'char *')];
provider.enable();
used._counters[used._index] = 1; // as if it were watched
for (let i = 0; i < 1e4; i++)
  used.fire(values, 'text', used, i, null);
used._counters[used._index] = 0;

const kinds = { Stub: rounds({ fire() {} }), Fresh: rounds(fresh), Used: rounds(used) };
const least = {};
for (let round = 0; round < ROUNDS; round++) {
  for (const [name, run] of Object.entries(kinds))
    least[name] = Math.min(least[name] ?? Infinity, run(values, CALLS));
}
console.log('ready ' + JSON.stringify(least));
