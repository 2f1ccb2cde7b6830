'use strict';
// load.js ADDON: loads an add-on, then computes for two fifths of the time.
process.dlopen({ exports: {} }, process.argv[2]);
setInterval(function loadedTick() {
  for (const end = Date.now() + 20; Date.now() < end;);
}, 50);
console.log('ready');
