// collects.js: collects garbage at SIGUSR2, and then prints what perf_hooks has seen: "collected" with, for each kind, how often and for how many milliseconds;
// and the event loop's utilisation meanwhile. Run with --expose-gc.
'use strict';

const { PerformanceObserver, performance, constants } = require('perf_hooks');
const { observed } = require('./lib/observed');
const { say, ready } = require('./lib/ready');

const names = {
  [constants.NODE_PERFORMANCE_GC_MINOR]: 'scavenge',
  [constants.NODE_PERFORMANCE_GC_MAJOR]: 'mark-compact',
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL]: 'incremental-marking',
  [constants.NODE_PERFORMANCE_GC_WEAKCB]: 'weak-callbacks',
};
const rounds = Number(process.argv[2] || 40);
const seen = {};
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    const name = names[entry.detail ? entry.detail.kind : entry.kind] || 'unknown';
    if (!seen[name]) seen[name] = { count: 0, ms: 0 };
    seen[name].count++;
    seen[name].ms += entry.duration;
  }
}).observe({ entryTypes: ['gc'] });

let kept = [];
function churn(left) {
  for (let i = 0; i < 20000; i++) kept.push({ i, text: `text ${i}` });
  if (left % 8 === 0) { kept = []; global.gc(); }
  if (left > 0) { setTimeout(churn, 1, left - 1); return; }
  observed(() => {
    say('collected', { seen, utilization: performance.eventLoopUtilization().utilization });
    process.exit();
  });
}

process.once('SIGUSR2', () => churn(rounds));
setInterval(() => {}, 1 << 30);
ready();
