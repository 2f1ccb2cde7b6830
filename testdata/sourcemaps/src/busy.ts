// A program under load. Run by node, each of its functions keeps the processor busy in
// turn; with "pool" as its argument, it has libuv's pool work instead; with "wait", it
// stands still in a function that two others have called.
import { pbkdf2 } from 'node:crypto';

interface Work { rounds: number }

export class Worker {
  constructor(private readonly work: Work) {}

  spinInMethod(): number {
    let sum = 0;
    for (let i = 0; i < this.work.rounds; i++) sum += Math.sqrt(i) * this.work.rounds;
    return sum;
  }
}

export function spinInFunction<T extends Work>(work: T): number {
  let sum = 0;
  for (let i = 0; i < work.rounds; i++) sum += Math.sqrt(i) / work.rounds;
  return sum;
}

export const spinInArrow = (work: Work): number => {
  let sum = 0;
  for (let i = 0; i < work.rounds; i++) sum -= Math.sqrt(i);
  return sum;
};

function spin(): void {
  const worker = new Worker({ rounds: 100_000 });
  const turn = (): void => {
    worker.spinInMethod();
    spinInFunction({ rounds: 100_000 });
    spinInArrow({ rounds: 100_000 });
    setImmediate(turn);
  };
  turn();
}

function fillThePool(): void {
  pbkdf2('secret', 'salt', 1000, 32, 'sha256', () => setImmediate(fillThePool));
}

function standStill(cell: Int32Array): void {
  console.log('ready'), Atomics.wait(cell, 0, 0); // in one line: a core may be taken in either call
}

function waitForever(): void {
  standStill(new Int32Array(new SharedArrayBuffer(4)));
}

switch (process.argv[2]) {
  case 'wait':
    waitForever();
    break;
  case 'pool':
    fillThePool();
    console.log('ready');
    break;
  default:
    spin();
    console.log('ready');
}
