// The line that tells a test that its target is where it should be.
'use strict';

const fs = require('fs');

// say prints one line without waiting for the event loop, which may never run again.
function say(word, facts) {
  fs.writeSync(1, facts === undefined ? `${word}\n` : `${word} ${JSON.stringify(facts)}\n`);
}

module.exports = { say, ready: (facts) => say('ready', facts) };
