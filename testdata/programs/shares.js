// shares.js FORM [--gc] [--seconds=N]: spends its CPU time in known shares.
//
// Three functions get 50, 30 and 20 % of a number of equal units of work; FORM
// says how they call it (--list). --gc has a fourth one, churn, make garbage all
// the while and makes the three anew, so that the collector moves them; its time
// is no part of the 100 %. Run it without inlining: an inlined function has no
// frame. The ready line names the functions and where they are defined. On
// SIGUSR2, and after N seconds, it prints the shares of CPU time that it has
// measured since the last time it did.
'use strict';

const truth = require('./lib/truth');
const { ready, say } = require('./lib/ready');

const collect = process.argv.includes('--gc');
const seconds = process.argv.find((arg) => arg.startsWith('--seconds='));
const percents = [50, 30, 20];
const order = [0, 1, 0, 2, 0, 1, 0, 2, 0, 1]; // 5, 3 and 2 of 10
const unitMicroseconds = 200;
const state = { seed: 1, rounds: 1000, observe: null, garbage: [] };

// unit does what every function's share is counted in.
function unit() {
  if (state.observe) state.observe();
  let x = state.seed;
  for (let i = state.rounds; i > 0; i--) {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
  }
  state.seed = x;
  return x;
}

// Each form returns three functions anew.
const forms = {
  plain() {
    function half() { return unit() + 1; }
    function third() { return unit() + 2; }
    function fifth() { return unit() + 3; }
    return [half, third, fifth];
  },
  recursive() {
    function half(n = 10) { return n === 0 ? unit() : half(n - 1) + 1; }
    function third(n = 5) { return n === 0 ? unit() : third(n - 1) + 1; }
    function fifth(n = 20) { return n === 0 ? unit() : fifth(n - 1) + 1; }
    return [() => half(), () => third(), () => fifth()];
  },
  mutual() {
    function half(n = 7) { return n <= 0 ? unit() : common(half, n); }
    function third(n = 5) { return n <= 0 ? unit() : common(third, n); }
    function fifth(n = 3) { return n <= 0 ? unit() : common(fifth, n); }
    function common(f, n) { return f(n - 1) + 1; }
    return [() => half(), () => third(), () => fifth()];
  },
  anonymous() {
    return [
      () => unit() + 1,
      () => unit() + 2,
      function () { return unit() + 3; },
    ];
  },
  methods() {
    class Work {
      half() { return unit() + 1; }
      get third() { return unit() + 2; }
      static fifth() { return unit() + 3; }
    }
    const work = new Work();
    return [() => work.half(), () => work.third, () => Work.fifth()];
  },
  async() {
    async function half() { await null; return unit() + 1; }
    async function third() { await null; return unit() + 2; }
    async function fifth() { await null; await null; return unit() + 3; }
    return [half, third, fifth];
  },
  deep() {
    function half(n = 120) { return n === 1 ? unit() : half(n - 1) + 1; }
    function third(n = 120) { return n === 1 ? unit() : third(n - 1) + 1; }
    function fifth(n = 120) { return n === 1 ? unit() : fifth(n - 1) + 1; }
    return [() => half(), () => third(), () => fifth()];
  },
};

// churn makes functions and drops them, most of them soon.
function churn() {
  const made = [];
  for (let i = 0; i < 2000; i++) {
    const held = { i, text: `garbage ${i}` };
    made.push(() => held.text.length + held.i);
  }
  state.garbage.push(made);
  if (state.garbage.length > 20) state.garbage.shift();
  return made[0]();
}

// cpu returns the microseconds of CPU time that the process has used.
function cpu() {
  const { user, system } = process.cpuUsage();
  return user + system;
}

// calibrate makes a unit last as long as it should.
function calibrate() {
  const tries = 50;
  for (let pass = 0; pass < 5; pass++) {
    const before = process.hrtime.bigint();
    for (let i = 0; i < tries; i++) unit();
    const took = Number(process.hrtime.bigint() - before) / 1000 / tries;
    state.rounds = Math.max(1, Math.round(state.rounds * unitMicroseconds / took));
  }
}

// locate returns the definition of the function that calls unit within work.
async function locate(work) {
  const observer = new truth.Observer();
  let found;
  state.observe = () => { found = found || observer.definitions()[1]; };
  await work();
  state.observe = null;
  observer.close();
  return found;
}

const spent = { work: [0, 0, 0], churn: 0, rounds: [] };
const maxRounds = 2000; // whose shares are kept

const sum = (numbers) => numbers.reduce((all, n) => all + n, 0);

// shares returns the percentages of the half of the rounds that took the least time: what
// disturbs the machine in a round is no share of the program's, and what disturbs it all the time
// takes as much of each unit.
function shares() {
  const kept = spent.rounds.sort((a, b) => sum(a) - sum(b)).slice(0, Math.ceil(spent.rounds.length / 2));
  const each = percents.map((_, i) => sum(kept.map((took) => took[i])));
  return each.map((t) => 100 * t / sum(each));
}

// tell prints the shares since it was last called.
function tell() {
  say('shares', { percents: shares(), microseconds: sum(spent.work), churn: spent.churn });
  spent.work.fill(0);
  spent.churn = 0;
  spent.rounds.length = 0;
}

// rounds runs for ever, or until end, and lets signals in between.
async function rounds(make, end) {
  let works = make();
  for (let round = 0; Date.now() < end; round++) {
    const took = [0, 0, 0];
    for (let at = 0; at < order.length; at++) {
      const i = order[(round + at) % order.length]; // none comes always first after churn
      const before = cpu();
      const result = works[i]();
      if (result instanceof Promise) await result;
      took[i] += cpu() - before;
    }
    took.forEach((t, i) => { spent.work[i] += t; });
    spent.rounds.push(took);
    if (spent.rounds.length > maxRounds) spent.rounds.shift();
    if (collect) {
      const before = cpu();
      churn();
      works = make();
      spent.churn += cpu() - before;
    }
    await new Promise(setImmediate);
  }
  tell();
}

async function main(form) {
  if (form === '--list') {
    Object.keys(forms).forEach((name) => say(name));
    return;
  }
  const make = forms[form];
  if (!make) throw new Error(`no form ${form} (--list prints them)`);
  calibrate();
  const functions = [];
  for (const [i, work] of make().entries()) {
    functions.push({ ...await locate(work), percent: percents[i] });
  }
  process.on('SIGUSR2', tell);
  ready({ pid: process.pid, file: __filename, functions });
  const limit = seconds ? 1000 * Number(seconds.slice('--seconds='.length)) : Infinity;
  await rounds(make, Date.now() + limit);
  process.exit(0);
}

main(process.argv[2]);
