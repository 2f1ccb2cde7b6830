// regexps.js: spends a third of its CPU time in each of three regular expressions.
// The ready line says how each is written.
'use strict';

const { ready } = require('./lib/ready');

const few = 'a'.repeat(100) + 'c';
const many = 'a'.repeat(1500) + 'c';
const long = new RegExp(`(?:${'wanted|'.repeat(40)}[^d])*?d`);

const searches = [
  { pattern: /a+a+b/, search: () => /a+a+b/.test(few) },
  { pattern: /(?:x|[^b/])*?d|é+q/giu, search: () => many.slice(1).replace(/(?:x|[^b/])*?d|é+q/giu, '') },
  { pattern: long, search: () => long.exec(many.slice(1)) },
];

ready({ pid: process.pid, patterns: searches.map(({ pattern }) => String(pattern)) });

const cpu = () => { const { user, system } = process.cpuUsage(); return user + system; };
const turn = 5000; // µs
for (;;) for (const { search } of searches) for (const end = cpu() + turn; cpu() < end;) search();
