// Runs in a page of Chrome's own DevTools: lets their parser read the heap snapshot
// that a file input has, as their memory panel does, and returns what that panel
// shows. These modules are as in Chromium 156.
(async () => {
  const warnings = [];
  console.warn = (...words) => warnings.push(words.join(' '));
  const { HeapSnapshotLoader, HeapSnapshot } = await import(
    'devtools://devtools/bundled/entrypoints/heap_snapshot_worker/heap_snapshot_worker.js');
  const loader = new HeapSnapshotLoader.HeapSnapshotLoader({ sendEvent() {} });
  for await (const chunk of input.files[0].stream().pipeThrough(new TextDecoderStream())) {
    loader.write(chunk);
  }
  loader.close();
  const { port1, port2 } = new MessageChannel();
  new HeapSnapshot.SecondaryInitManager(port2); // finds dominators and retained sizes
  const snapshot = await loader.buildSnapshot(port1);

  const classes = {};
  for (const { name, count, self, maxRet } of Object.values(snapshot.aggregatesWithFilter({}))) {
    classes[name] = { count, bytes: self, retained: maxRet };
  }
  const ids = new Set();
  const concatenated = new Set();
  let unreached = 0;
  for (const nodes = snapshot.allNodes(); nodes.hasNext(); nodes.next()) {
    const node = nodes.item();
    ids.add(node.id());
    if (node.distance() < 0) unreached++;
    if (node.type() === 'concatenated string') concatenated.add(node.name());
  }
  return {
    nodes: snapshot.nodeCount, ids: ids.size, unreached, total: snapshot.totalSize,
    classes, concatenated: [...concatenated], warnings,
  };
})();
