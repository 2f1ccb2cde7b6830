// An assembler for small WebAssembly modules.
'use strict';

const I32 = 0x7f;

// leb returns a number as LEB128 bytes, signed ones for constants.
function leb(n) {
  const bytes = [];
  for (; n > 0x7f; n >>>= 7) bytes.push((n & 0x7f) | 0x80);
  return [...bytes, n];
}

function sleb(n) {
  const bytes = [];
  for (;;) {
    const low = n & 0x7f;
    n >>= 7;
    if ((n === 0 && !(low & 0x40)) || (n === -1 && low & 0x40)) return [...bytes, low];
    bytes.push(low | 0x80);
  }
}

const text = (s) => { const b = [...Buffer.from(s)]; return [...leb(b.length), ...b]; };
const list = (items) => [...leb(items.length), ...items.flat()];
const section = (id, body) => [id, ...leb(body.length), ...body];

const local = (i) => [0x20, ...leb(i)];
const set = (i) => [0x21, ...leb(i)];
const i32 = (n) => [0x41, ...sleb(n)];
const call = (i) => [0x10, ...leb(i)];
const callIndirect = (type) => [0x11, ...leb(type), 0];

// The types that functions have, by number.
const types = { work: 0, notify: 1 }; // (i32) -> i32, () -> ()

// spins computes for as many rounds as local 0 says. Its result is in local 1.
const spins = [
  ...i32(1), ...set(1), ...local(0), ...set(2),
  0x02, 0x40, // block
  ...local(2), 0x45, 0x0d, 0, // br_if 0 when no round is left
  0x03, 0x40, // loop
  ...[[13, 0x74], [17, 0x76], [5, 0x74]].flatMap(([by, shift]) => (
    [...local(1), ...local(1), ...i32(by), shift, 0x73, ...set(1)])),
  ...local(2), ...i32(1), 0x6b, 0x22, 2, // local.tee
  0x0d, 0, 0x0b, 0x0b, // br_if loop, end, end
];

// A function of type work that first calls `observe`, import 0, where its
// argument is 0, then runs code, which may use locals 1 and 2. The value of
// local 1 is its result.
function worker(code) {
  const body = [
    ...[1, 2, I32], // two locals
    ...local(0), 0x45, 0x04, 0x40, ...call(0), 0x0b, // if (!n) observe()
    ...code, ...local(1), 0x0b,
  ];
  return [...leb(body.length), ...body];
}

// assemble returns the bytes of a module. imports are names of functions, of
// module "js", the first of type notify, all others of type work; functions are
// bodies of type work by name, all exported, in a table in order. naming says
// whether there is a name section.
function assemble({ name, imports = ['observe'], functions, naming = true }) {
  const entries = Object.entries(functions);
  const bodies = entries.map(([, body]) => body);
  const index = (i) => imports.length + i;
  const names = entries.map(([exported], i) => [...leb(index(i)), ...text(exported)]);
  return Uint8Array.from([
    0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
    ...section(1, list([[0x60, 1, I32, 1, I32], [0x60, 0, 0]])),
    ...section(2, list(imports.map((field, i) => [...text('js'), ...text(field), 0, i ? types.work : types.notify]))),
    ...section(3, list(bodies.map(() => [types.work]))),
    ...section(4, list([[0x70, 0, ...leb(bodies.length)]])),
    ...section(7, list(entries.map(([exported], i) => [...text(exported), 0, ...leb(index(i))]))),
    ...section(9, list([[0, ...i32(0), 0x0b, ...list(bodies.map((_, i) => leb(index(i))))]])),
    ...section(10, list(bodies)),
    ...(naming ? section(0, [
      ...text('name'),
      ...(name === undefined ? [] : section(0, text(name))),
      ...section(1, list(names)),
    ]) : []),
  ]);
}

module.exports = { assemble, worker, spins, local, set, i32, call, callIndirect, types };
