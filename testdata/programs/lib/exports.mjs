// What a module may export, and what is true of it.
export let count = 1;
export const text = 'exported';
let hidden = 'in a module';
export function fn() { return hidden; }
export default class Main {}
export * as self from './exports.mjs';
export const truth = { count: '2', text: '"exported"', fn: '@inModule', default: 'Main', self: '@namespace', truth: 'Object' };
count++;
