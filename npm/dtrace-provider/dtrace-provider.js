'use strict';
// Static probes that a program defines itself, with the interface of dtrace-provider 0.8. Where
// probes are not possible, the same functions do nothing; if NODE_DTRACE_PROVIDER_REQUIRE is
// "hard", loading fails instead.

const MAX_ARGUMENTS = 32;
const MAX_PROBES = 2048; // that are enabled at once

const required = process.env.NODE_DTRACE_PROVIDER_REQUIRE === 'hard';
const unwatched = new Uint16Array(1); // the counter of a probe that is not enabled

// valueOf returns an argument as the binding takes it.
function valueOf(type, value) {
  if (type === 'int')
    return value === undefined ? 0 : Number(value);
  if (value === undefined)
    return 'undefined';
  if (type !== 'json')
    return typeof value === 'string' ? value : String(value);
  try {
    return String(JSON.stringify(value));
  } catch {
    return '{ "error": "stringify failed" }';
  }
}

// typeOf returns the type that a name stands for: other names than those of integers and JSON are
// those of texts.
function typeOf(name) {
  name = String(name);
  if (name.startsWith('json'))
    return 'json';
  return name.startsWith('int') ? 'int' : 'char *';
}

function load() {
  const { image, supports } = require('./elf.js');
  if (process.platform !== 'linux' || !supports(process.arch))
    throw new Error(`no probes on ${process.platform}-${process.arch}`);
  const binding = require(`./prebuilds/${process.platform}-${process.arch}.node`);
  const { randomBytes } = require('crypto');

  // enable maps a library with the probes. If the machine does not allow that, nobody can watch them:
  // no reason for a program to fail.
  function enable(provider, probes) {
    try {
      return tryEnable(provider, probes);
    } catch (error) {
      if (required)
        throw error;
      return null;
    }
  }

  function tryEnable(provider, probes) {
    const { bytes, functions, counters, stub } = image({
      provider, probes, arch: process.arch, page: binding.page, identity: randomBytes(20),
    });
    const library = binding.map(`usdt-${provider}`, bytes, functions, counters, stub, probes.length);
    const words = new Uint16Array(library.counters);
    probes.forEach((probe, i) => probe._enable(library, words, i));
    return library;
  }

  class DTraceProbe {
    constructor(provider, name, types) {
      this._counters = unwatched;
      this._index = 0;
      this._library = null;
      this.name = name;
      this.types = types;
      // The provider lives as long as its probes.
      Object.defineProperty(this, '__prov__', { value: provider });
    }

    _enable(library, counters, index) {
      this._library = library;
      this._index = index;
      this._counters = counters;
    }

    _disable() {
      this._counters = unwatched;
      this._index = 0;
      this._library = null;
    }

    // fire calls back for the arguments, an array, if somebody watches the probe. V8 makes no array
    // of all, since that is only passed on.
    fire(...all) {
      if (this._counters[this._index] === 0)
        return undefined;
      return this._fire(...all);
    }

    _fire(callback, ...rest) {
      if (typeof callback !== 'function')
        throw new TypeError('Must give probe value callback as first argument');
      const values = callback.apply(this, rest);
      if (!Array.isArray(values) || this._library === null)
        return undefined;
      binding.fire(this._library.handle, this._index, this.types.map((type, i) => valueOf(type, values[i])));
      return true;
    }
  }

  class DTraceProvider {
    #name;
    #probes = new Set();
    #libraries = new Set();

    constructor(name, module) {
      if (typeof name !== 'string')
        throw new TypeError('Must give provider name as argument');
      if (arguments.length > 1 && typeof module !== 'string')
        throw new TypeError('Must give module name as argument');
      this.#name = name;
    }

    addProbe(name, ...types) {
      const probe = new DTraceProbe(this, String(name), types.slice(0, MAX_ARGUMENTS).map(typeOf));
      this.#probes.add(probe);
      this[name] = probe;
      return probe;
    }

    removeProbe(probe) {
      if (!this.#probes.delete(probe))
        throw new Error('no such probe');
      if (this[probe.name] === probe)
        delete this[probe.name];
      const library = probe._library;
      probe._disable();
      if (library !== null && ![...this.#probes].some((other) => other._library === library))
        this.#unmap(library);
      return true;
    }

    // enable makes the probes visible that were added since it was last called.
    enable() {
      const added = [...this.#probes].filter((probe) => probe._library === null);
      if (added.length === 0)
        return;
      if (this.#probes.size > MAX_PROBES)
        throw new Error(`more than ${MAX_PROBES} probes`);
      const library = enable(this.#name, added);
      if (library !== null)
        this.#libraries.add(library);
    }

    disable() {
      for (const probe of this.#probes)
        probe._disable();
      for (const library of this.#libraries)
        this.#unmap(library);
    }

    #unmap(library) {
      this.#libraries.delete(library);
      binding.unmap(library.handle, library.counters);
    }

    fire(name, callback, ...rest) {
      if (typeof name !== 'string')
        throw new TypeError('Must give probe name as first argument');
      if (typeof callback !== 'function')
        throw new TypeError('Must give probe value callback as second argument');
      const probe = this[name];
      if (!(probe instanceof DTraceProbe) || !this.#probes.has(probe))
        return undefined;
      probe.fire(callback, ...rest);
      return true;
    }
  }

  return DTraceProvider;
}

// The interface where there are no probes.
class DTraceProviderStub {
  addProbe(name) {
    const probe = { fire() {} };
    this[name] = probe;
    return probe;
  }
  removeProbe() {}
  enable() {}
  disable() {}
  fire() {}
}

let DTraceProvider;
try {
  DTraceProvider = load();
} catch (error) {
  if (required)
    throw error;
  DTraceProvider = DTraceProviderStub;
}

exports.DTraceProvider = DTraceProvider;
exports.createDTraceProvider = function createDTraceProvider(...words) {
  return new DTraceProvider(...words);
};
