// regexps.js: spends its CPU time in three regular expressions. The ready line
// says how each is written.
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
for (;;) for (const { search } of searches) search();
