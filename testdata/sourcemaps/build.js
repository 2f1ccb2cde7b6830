// Makes scripts with source maps by the usual tools, from src below the folder that is the
// argument, in whose node_modules the tools are. For each script in "checked" it writes what
// npm's source-map says about its positions: script.js.expected, a line of JSON for each,
// [line, column, source, line, column, name] as source-map counts.
'use strict';

const { execFileSync } = require('child_process');
const fs = require('fs');
const path = require('path');

const folder = path.resolve(process.argv[2]);
const tool = (name) => require(path.join(folder, 'node_modules', name));
const source = (name) => path.join(folder, 'src', name);
const rxjs = (name) => path.join(folder, 'node_modules', 'rxjs', 'src', 'internal', name + '.ts');

function typescript() {
  const compiler = path.join(folder, 'node_modules', 'typescript', 'bin', 'tsc');
  const compile = (target, out, ...files) => execFileSync(process.execPath, [compiler, '--outDir', path.join(folder, out),
    '--rootDir', folder, '--sourceMap', '--target', target, '--module', 'commonjs', '--skipLibCheck', '--noCheck',
    '--ignoreDeprecations', '5.0', '--lib', 'es2022,dom', '--downlevelIteration', ...files]);
  compile('es2017', 'tsc', source('busy.ts'), rxjs('Observable'), rxjs('Subscriber'));
  compile('es5', 'tsc-es5', source('busy.ts'));
}

async function esbuild() {
  const { build } = tool('esbuild');
  for (const name of ['busy', 'many']) {
    await build({ entryPoints: [source(name + '.ts')], bundle: true, minify: true, platform: 'node', sourcemap: true,
      outfile: path.join(folder, 'esbuild', name + '.js'), logLevel: 'error' });
  }
  await build({ entryPoints: [source('busy.ts')], minify: true, format: 'esm', sourcemap: 'inline',
    outfile: path.join(folder, 'inline', 'busy.mjs') });
}

const swcOptions = { jsc: { parser: { syntax: 'typescript' }, target: 'es2017' }, module: { type: 'commonjs' }, sourceMaps: true };

function swc() {
  fs.mkdirSync(path.join(folder, 'swc'));
  for (const file of [source('busy.ts'), rxjs('Observable'), rxjs('Subscriber'), rxjs('ReplaySubject')]) {
    const name = path.basename(file, '.ts') + '.js';
    const { code, map } = tool('@swc/core').transformFileSync(file, swcOptions);
    const out = path.join(folder, 'swc', name);
    fs.writeFileSync(out, code + `\n//# sourceMappingURL=${name}.map\n`);
    const relative = JSON.parse(map);
    relative.sources = relative.sources.map((s) => path.relative(path.dirname(out), s));
    fs.writeFileSync(out + '.map', JSON.stringify(relative));
  }
}

function webpack() {
  return new Promise((resolve, reject) => tool('webpack')({
    mode: 'production', target: 'node', devtool: 'source-map', context: folder,
    entry: { busy: source('busy.ts'), many: source('many.ts') },
    output: { path: path.join(folder, 'webpack') },
    resolve: { extensions: ['.ts', '.js'] },
    module: { rules: [{ test: /\.ts$/, loader: path.join(folder, 'node_modules', 'swc-loader'), options: swcOptions }] },
  }, (err, stats) => (err || stats.hasErrors() ? reject(err || stats.toString()) : resolve())));
}

async function expect(script) {
  const most = 20000; // positions of a script
  const file = path.join(folder, script);
  const lines = fs.readFileSync(file, 'utf8').split('\n');
  const step = Math.ceil(lines.reduce((sum, line) => sum + line.length + 1, 0) / most);
  const found = [];
  await tool('source-map').SourceMapConsumer.with(JSON.parse(fs.readFileSync(file + '.map')), null, (map) => {
    let at = 0;
    lines.forEach((text, i) => {
      for (let column = 0; column <= text.length; column++) {
        if (at++ % step !== 0) continue;
        const o = map.originalPositionFor({ line: i + 1, column });
        found.push(JSON.stringify([i + 1, column, o.source, o.line, o.column, o.name]));
      }
    });
  });
  fs.writeFileSync(file + '.expected', found.join('\n') + '\n');
}

const checked = ['tsc/src/busy.js', 'tsc/node_modules/rxjs/src/internal/Observable.js', 'tsc/node_modules/rxjs/src/internal/Subscriber.js',
  'tsc-es5/src/busy.js', 'esbuild/busy.js', 'esbuild/many.js', 'swc/busy.js', 'swc/Observable.js', 'swc/Subscriber.js',
  'swc/ReplaySubject.js', 'webpack/busy.js', 'webpack/many.js'];

(async () => {
  typescript();
  await esbuild();
  swc();
  await webpack();
  for (const script of checked) await expect(script);
})().catch((err) => {
  console.error(err);
  process.exitCode = 1;
});
