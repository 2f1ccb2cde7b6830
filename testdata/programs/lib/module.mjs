// Functions of an ECMAScript module, whose names and file are not like a script's.
export default function (spin) { return spin() + 1; }

export const arrow = (spin) => spin() + 1;

export async function awaits(spin) { return spin() + 1; }

export class Exported {
  method(spin) { return spin() + 1; }
}
