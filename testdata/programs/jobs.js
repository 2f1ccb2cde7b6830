// jobs.js PLAN: hands jobs to libuv's pool, as many and as long as the plan says,
// and tells how many there were and how long each took from its call to its
// callback. The plan is JSON:
//
//   addons   paths by name
//   workers  threads that each carry out the plan, instead of the main thread
//   stay     do not end afterwards
//   steps    each begins when the one before has ended:
//     addon, call    what to call; without addon, one of node's own (lib/calls.js)
//     us             microseconds that one job takes
//     resource       name of the async resource
//     count          jobs; or
//     seconds        how long to begin jobs
//     inflight       jobs that wait or run at a time; 1 if left out
//     block_ms       how long to block the event loop after the call of each job
//     hold, hold_us  jobs of the same add-on that sleep in front of the step's
//
// It loads the add-ons, says ready and begins at SIGUSR2. A step with seconds
// says "rate" once a second; at the end comes "done" with what became of each
// step.
'use strict';

const { Worker, isMainThread, parentPort, workerData, threadId } = require('worker_threads');
const { ready, say } = require('./lib/ready');
const { find } = require('./lib/calls');

const fewDurations = 1000; // jobs up to which each one's duration is told

const now = () => Number(process.hrtime.bigint());

// A Tally counts what became of a step's jobs.
class Tally {
  constructor(step) {
    Object.assign(this, {
      addon: step.addon, call: step.call, thread: threadId,
      submitted: 0, completed: 0, cancelled: 0, failed: 0,
      min_ns: 0, max_ns: 0, sum_ns: 0, wall_ns: 0, durations: [],
    });
  }

  ended(ns, error, cancelled) {
    const before = this.completed + this.cancelled + this.failed;
    if (error) this.failed++;
    else if (cancelled) this.cancelled++;
    else this.completed++;
    this.min_ns = before === 0 ? ns : Math.min(this.min_ns, ns);
    this.max_ns = Math.max(this.max_ns, ns);
    this.sum_ns += ns;
    if (before < fewDurations) this.durations.push(ns);
  }
}

function block(ms) {
  for (const end = now() + ms * 1e6; now() < end;);
}

// hold puts jobs in front of a step's and returns when all have ended, if asked.
function hold(step, addons) {
  const submit = step.hold && find({ addon: step.addon, call: 'sleep', us: step.hold_us }, addons);
  return Promise.all(Array.from({ length: step.hold || 0 }, () => new Promise(submit)));
}

// carryOut keeps as many of the step's jobs in flight as it says.
function carryOut(step, submit, tally) {
  const deadline = step.seconds ? now() + step.seconds * 1e9 : 0;
  let inflight = 0;
  return new Promise((done) => {
    function next() {
      const start = now();
      if (deadline ? start >= deadline : tally.submitted >= step.count) {
        if (inflight === 0) done();
        return;
      }
      inflight++;
      tally.submitted++;
      submit((error, cancelled) => {
        tally.ended(now() - start, error, cancelled);
        inflight--;
        next();
      });
      if (step.block_ms) block(step.block_ms);
    }
    for (let i = step.inflight || 1; i > 0; i--) next();
  });
}

// tellRate says the jobs of each second until the returned function is called.
function tellRate(tally) {
  let second = 0;
  let before = 0;
  const timer = setInterval(() => {
    const jobs = tally.completed - before;
    before = tally.completed;
    say('rate', { thread: threadId, second: ++second, jobs });
  }, 1000);
  return () => clearInterval(timer);
}

async function run(step, addons) {
  const submit = find(step, addons);
  const tally = new Tally(step);
  const start = now();
  const stop = step.seconds ? tellRate(tally) : () => {};
  const held = hold(step, addons);
  await carryOut(step, submit, tally);
  tally.wall_ns = now() - start;
  await held;
  stop();
  if (tally.submitted > fewDurations) tally.durations = [];
  return tally;
}

function load(plan) {
  return Object.fromEntries(Object.entries(plan.addons || {}).map(([name, path]) => [name, require(path)]));
}

async function runAll(plan, addons) {
  const tallies = [];
  for (const step of plan.steps) tallies.push(await run(step, addons));
  return tallies;
}

function startWorkers(count, plan) {
  const workers = Array.from({ length: count }, () => new Worker(__filename, { workerData: plan }));
  const message = (worker) => new Promise((done, fail) => worker.once('message', done).once('error', fail));
  return Promise.all(workers.map(message)).then(() => () => {
    const results = workers.map(message);
    workers.forEach((worker) => worker.postMessage('go'));
    return Promise.all(results).then((all) => all.flat());
  });
}

async function main() {
  const plan = JSON.parse(process.argv[2]);
  const addons = load(plan);
  const awake = setInterval(() => {}, 1 << 30); // signals alone keep no process alive
  const begin = plan.workers ? await startWorkers(plan.workers, plan) : () => runAll(plan, addons);
  process.once('SIGUSR2', async () => {
    say('done', { pid: process.pid, steps: await begin() });
    if (!plan.stay) clearInterval(awake);
  });
  ready({ pid: process.pid });
}

if (isMainThread) {
  main();
} else {
  const addons = load(workerData);
  parentPort.once('message', async () => parentPort.postMessage(await runAll(workerData, addons)));
  parentPort.postMessage('up');
}
