// What V8 itself says of the stack: the call sites of an Error, and where each
// function is defined, by the debugger of this very process.
'use strict';

const inspector = require('inspector');

Error.stackTraceLimit = Infinity;

// calls returns the call sites of the stack below the function cut, leaf first.
// Frames that are not on the machine's stack (awaiting async callers) have
// async set; functions without a script have builtin set.
function calls(cut) {
  const format = Error.prepareStackTrace;
  Error.prepareStackTrace = (_, sites) => sites;
  const holder = {};
  Error.captureStackTrace(holder, cut);
  const sites = holder.stack;
  Error.prepareStackTrace = format;
  return sites.map((site) => ({
    function: site.getFunctionName() || '',
    type: site.getTypeName() || '',
    method: site.getMethodName() || '',
    file: site.getFileName() || site.getScriptNameOrSourceURL() || '',
    line: site.getLineNumber() || 0,
    column: site.getColumnNumber() || 0,
    builtin: site.getLineNumber() === null,
    construct: site.isConstructor(),
    eval: site.isEval(),
    async: Boolean(site.isAsync && site.isAsync()),
  }));
}

// An Observer stands in for a debugger of this process.
class Observer {
  constructor() {
    this.session = new inspector.Session();
    this.session.connect();
    this.paused = [];
    this.session.on('Debugger.paused', ({ params }) => {
      this.paused = params.callFrames;
    });
    this.session.post('Debugger.enable');
  }

  // definitions returns name, line and column (from 1) of each function with a
  // script on the stack below the caller, leaf first.
  definitions() {
    debugger;
    const own = 2; // this method and its caller
    return this.paused.slice(own).map((frame) => ({
      name: frame.functionName,
      line: frame.functionLocation.lineNumber + 1,
      column: frame.functionLocation.columnNumber + 1,
    }));
  }

  close() {
    this.session.post('Debugger.disable');
    this.session.disconnect();
  }
}

// join adds to each call with a script what definitions says of its function.
function join(calls, definitions) {
  const scripted = calls.filter((call) => !call.builtin && !call.async);
  if (scripted.length !== definitions.length) {
    throw new Error(`${scripted.length} calls have a script, ${definitions.length} definitions`);
  }
  scripted.forEach((call, i) => {
    const { name, line, column } = definitions[i];
    call.definition = { name, line, column };
  });
  return calls;
}

module.exports = { calls, join, Observer };
