// Chooses V8's compiler for a set of functions, and asks which one made their
// code, with the natives of --allow-natives-syntax. They are compiled at run
// time: without the flag this file must still parse.
'use strict';

const fs = require('fs');

const native = (body) => new Function('f', `return ${body}`);

// asked returns the word of --tier=WORD on the command line, or undefined.
function asked() {
  const flag = process.argv.find((arg) => arg.startsWith('--tier='));
  return flag && flag.slice('--tier='.length);
}

// force returns what to do with each function before it is warm and after.
function force(tier) {
  const nothing = { before: () => {}, after: () => {} };
  if (tier !== 'maglev' && tier !== 'turbofan') return nothing;
  return {
    before: native('%PrepareFunctionForOptimization(f)'),
    after: native(tier === 'maglev' ? '%OptimizeMaglevOnNextCall(f)' : '%OptimizeFunctionOnNextCall(f)'),
  };
}

// The bits of %GetOptimizationStatus: V8 put Maglev's among them in 10.2 and
// took "always optimize" out between 13.6 and 14.1.
function bits() {
  const major = parseInt(process.versions.v8, 10);
  const maglev = major < 10 ? 4 : major < 14 ? 5 : 4;
  const turbofan = major < 10 ? 5 : maglev + 1;
  return {
    ...(major >= 10 && { maglev }),
    turbofan,
    interpreted: turbofan + 1,
    baseline: turbofan + 9,
  };
}

// word returns the tier of a function's code.
function word(f) {
  const status = native('%GetOptimizationStatus(f)');
  return Object.entries(bits()).filter(([, bit]) => status(f) & (1 << bit)).map(([name]) => name).join('+');
}

// words returns a Map from "line:column" (from 1) of each of the functions that
// are defined in file to the tier of its code; it is empty without natives.
function words(functions, file) {
  const words = new Map();
  if (!process.execArgv.includes('--allow-natives-syntax')) return words;
  const position = native('%FunctionGetScriptSourcePosition(f)');
  const source = fs.readFileSync(file, 'utf8');
  for (const f of functions) {
    const before = source.slice(0, position(f)).split('\n');
    words.set(`${before.length}:${before[before.length - 1].length + 1}`, word(f));
  }
  return words;
}

module.exports = { asked, force, word, words };
