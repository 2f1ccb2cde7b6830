'use strict';
// Makes the image of a library that has static probes as SystemTap's sys/sdt.h has them: for each
// probe a function that only returns, a note that says where it is, and a counter of who watches.
//
// Tracers look for sections, not only for segments: each address in a note lies in a section, and
// .stapsdt.base has the address that the notes are relative to. The order of the sections is that
// of linkers, .text, .probes, .note.stapsdt: bcc and bpftrace look for each of them only behind
// the one before (bcc 0.26, bcc_elf_foreach_usdt).

const NULL = 0, PROGBITS = 1, SYMTAB = 2, STRTAB = 3, NOTE = 7; // section types
const WRITE = 1, ALLOC = 2, CODE = 4; // section flags
const LOAD = 1, NOTES = 4, STACK = 0x6474e551; // segment types
const HEADER = 64, SEGMENT = 56, SECTION = 64, SYMBOL = 24; // sizes in ELF64
const STAPSDT = 3, BUILD_ID = 3; // note types
const STUB = 16; // bytes from one function to the next

// A probe's arguments are in an array, which the function's first parameter points to. The first
// instruction is one that the kernel needs not run itself when it is probed.
const machines = {
  x64: {
    number: 62,
    code: Buffer.from([0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3]), // nop; ret
    argument: (i) => `${i ? 8 * i : ''}(%rdi)`,
  },
  arm64: {
    number: 183,
    code: Buffer.from([0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6]), // nop; ret
    argument: (i) => (i ? `[x0, ${8 * i}]` : '[x0]'),
  },
};

function word(...values) {
  const buffer = Buffer.alloc(8 * values.length);
  values.forEach((value, i) => buffer.writeBigUInt64LE(BigInt(value), 8 * i));
  return buffer;
}

function pad(buffer, to) {
  return Buffer.concat([buffer, Buffer.alloc((to - (buffer.length % to)) % to)]);
}

function note(owner, type, description) {
  const name = Buffer.from(owner + '\0');
  const head = Buffer.alloc(12);
  head.writeUInt32LE(name.length, 0);
  head.writeUInt32LE(description.length, 4);
  head.writeUInt32LE(type, 8);
  return Buffer.concat([head, pad(name, 4), pad(description, 4)]);
}

// Texts are cut at a zero byte, which would end them in a note.
function text(value) {
  return Buffer.from(value.split('\0', 1)[0] + '\0');
}

// describe returns where a probe has its arguments: integers are signed, texts are addresses.
function describe(machine, types) {
  return types.map((type, i) => (type === 'int' ? '-8@' : '8@') + machine.argument(i)).join(' ');
}

// A Table is a section of texts that others refer to by their offset.
class Table {
  constructor() {
    this.bytes = Buffer.from('\0');
  }
  add(value) {
    const at = this.bytes.length;
    this.bytes = Buffer.concat([this.bytes, text(value)]);
    return at;
  }
}

// image returns the bytes of the library, and where in it, and in memory relative to it, the
// functions and the counters begin. Both are on pages of their own. Each of the probes has a name
// and the types of its arguments; identity is 20 bytes that no other library has.
function image({ provider, probes, arch, page, identity }) {
  const machine = machines[arch];
  const names = new Table();
  const strings = new Table();
  const round = (n) => Math.ceil(n / page) * page;

  const segments = 5;
  const identityAt = HEADER + segments * SEGMENT;
  const identityNote = note('GNU', BUILD_ID, identity);
  const base = identityAt + identityNote.length;
  const functions = round(base + 1);
  const counters = functions + round(STUB * probes.length);
  const countersLength = 2 * probes.length;
  const notes = Buffer.concat(probes.map((probe, i) => note('stapsdt', STAPSDT, Buffer.concat([
    word(functions + STUB * i, base, counters + 2 * i),
    text(provider), text(probe.name), text(describe(machine, probe.types)),
  ]))));

  const code = Buffer.alloc(STUB * probes.length);
  const symbols = [Buffer.alloc(SYMBOL)];
  probes.forEach((probe, i) => {
    machine.code.copy(code, STUB * i);
    const symbol = Buffer.alloc(SYMBOL);
    symbol.writeUInt32LE(strings.add(`${provider}:${probe.name}`), 0);
    symbol[4] = 0x12; // a global function
    symbol.writeUInt16LE(3, 6); // in .text
    word(functions + STUB * i, machine.code.length).copy(symbol, 8);
    symbols.push(symbol);
  });
  const all = [
    { type: NULL, name: '', at: 0, bytes: Buffer.alloc(0) },
    { type: NOTE, name: '.note.gnu.build-id', flags: ALLOC, at: identityAt, bytes: identityNote, align: 4 },
    { type: PROGBITS, name: '.stapsdt.base', flags: ALLOC, at: base, bytes: Buffer.alloc(1), align: 1 },
    { type: PROGBITS, name: '.text', flags: ALLOC | CODE, at: functions, bytes: code, align: STUB },
    { type: PROGBITS, name: '.probes', flags: ALLOC | WRITE, at: counters, bytes: Buffer.alloc(countersLength), align: 2 },
    { type: NOTE, name: '.note.stapsdt', bytes: notes, align: 4 },
    { type: SYMTAB, name: '.symtab', bytes: Buffer.concat(symbols), align: 8, link: 7, info: 1, entry: SYMBOL },
    { type: STRTAB, name: '.strtab', bytes: strings.bytes, align: 1 },
    { type: STRTAB, name: '.shstrtab', align: 1 },
  ];
  for (const section of all)
    section.named = section.name && names.add(section.name);
  all[all.length - 1].bytes = names.bytes;

  // What is not mapped follows the page of the counters, which must be whole.
  let end = counters + page;
  const parts = [];
  for (const section of all) {
    if (section.at === undefined) {
      section.at = end;
      end += Math.ceil(section.bytes.length / 8) * 8;
    }
    parts.push([section.at, section.bytes]);
  }
  const headers = all.map((s) => {
    const b = Buffer.alloc(SECTION);
    b.writeUInt32LE(s.named || 0, 0);
    b.writeUInt32LE(s.type, 4);
    word(s.flags || 0, s.flags ? s.at : 0, s.at, s.bytes.length).copy(b, 8);
    b.writeUInt32LE(s.link || 0, 40);
    b.writeUInt32LE(s.info || 0, 44);
    word(s.align || 0, s.entry || 0).copy(b, 48);
    return b;
  });
  parts.push([end, Buffer.concat(headers)]);

  const segment = (type, flags, at, length, align) => {
    const b = Buffer.alloc(SEGMENT);
    b.writeUInt32LE(type, 0);
    b.writeUInt32LE(flags, 4);
    word(at, at, at, length, length, align).copy(b, 8);
    return b;
  };
  parts.push([HEADER, Buffer.concat([
    segment(LOAD, 4, 0, base + 1, page),
    segment(LOAD, 5, functions, code.length, page),
    segment(LOAD, 6, counters, countersLength, page),
    segment(NOTES, 4, identityAt, base - identityAt, 4),
    segment(STACK, 6, 0, 0, 16),
  ])]);

  const header = Buffer.alloc(HEADER);
  Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]).copy(header); // \x7fELF, 64 bits, little-endian
  header.writeUInt16LE(3, 16); // a shared object
  header.writeUInt16LE(machine.number, 18);
  header.writeUInt32LE(1, 20);
  word(0, HEADER, end).copy(header, 24); // entry, segments, sections
  [HEADER, SEGMENT, segments, SECTION, all.length, all.length - 1].forEach((value, i) => header.writeUInt16LE(value, 52 + 2 * i));
  parts.push([0, header]);

  const bytes = Buffer.alloc(end + all.length * SECTION);
  for (const [at, part] of parts)
    part.copy(bytes, at);
  return { bytes, functions, counters, stub: STUB };
}

exports.image = image;
exports.supports = (arch) => arch in machines;
