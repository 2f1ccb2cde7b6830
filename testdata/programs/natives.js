// natives.js NAME FILE: keeps an add-on at work, in the thread pool and on the main thread
// where it can: npm's bcrypt or sharp, whose folder is FILE, or chain, which is chain.c
// compiled.
'use strict';

const { ready } = require('./lib/ready');

const works = {
  async bcrypt(bcrypt) {
    bcrypt.hashSync('secret', 6);
    await Promise.all(Array.from({ length: 4 }, () => bcrypt.hash('secret', 6)));
  },
  async sharp(sharp) {
    const raw = { width: 640, height: 480, channels: 3 };
    const pixels = Buffer.alloc(raw.width * raw.height * raw.channels, 'pixels');
    await Promise.all(['jpeg', 'png', 'webp'].map((format) => sharp(pixels, { raw }).resize(320).toFormat(format).toBuffer()));
  },
  async chain(spin) {
    spin(20);
  },
};

async function main() {
  const [name, folder] = process.argv.slice(2);
  const addon = require(folder);
  await works[name](addon);
  ready();
  for (;;) {
    await works[name](addon);
    await new Promise(setImmediate);
  }
}

main();
