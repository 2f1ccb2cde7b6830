// deno.mjs: a function that runs most of the time, for Deno as well as Node.js.

function burnVisibly() {
  let sum = 0;
  for (let i = 0; i < 1e7; i++) sum += Math.sqrt(i);
  return sum;
}

setInterval(burnVisibly, 1);
console.log('ready');
