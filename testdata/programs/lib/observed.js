// observed.js: calls back once observers of performance entries have seen what happened so far.
'use strict';

// Node passes on a collection in the loop's next check phase, and calls observers in the one after:
// a timer alone may be late, and then run before both.
function observed(done, turns = 4) {
  if (turns > 0) setImmediate(observed, done, turns - 1);
  else done();
}

module.exports = { observed };
