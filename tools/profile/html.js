// A canvas as the surface of a flame graph, and the trees that are drawn on it:
// of the program's functions with the native work for each in one box, or of all.
(function () {
  const data = chooseEvent();
  const stage = byId("stage"), canvas = byId("canvas"), extent = byId("extent");
  const context = canvas.getContext("2d");
  const rowHeight = 18, pad = 4;
  const shownLines = 6; // in the details
  const hints = "Click or Enter zooms, Esc goes back. Arrows move. / or Ctrl-F searches. j switches between JavaScript and everything, i turns the graph over, r merges stacks from the leaf.";

  const functions = data.names.map((name, i) => {
    const [kind, file, line, column, module] = data.frames.slice(5 * i, 5 * i + 5);
    const f = {
      name, full: data.full[i] || name, kind: data.kinds[kind].name, hue: data.kinds[kind].hue, module: module ? data.modules[module - 1] : "",
      file: file ? data.files[file - 1] : "", mark: kind === 0 && !module && name.startsWith("["),
    };
    f.place = f.file ? f.file + (line > 0 ? ":" + line + (column > 0 ? ":" + column : "") : "") : f.module;
    f.texts = [f.full + " " + f.place, name, f.module];
    f.group = group(f);
    f.hash = hash(f.full);
    return f;
  });
  const all = { name: "all", full: "all", kind: "", module: "", file: "", place: "", texts: [], group: "", mark: true, hash: 0 };

  // group names the module, or the package of JavaScript, that a function is of.
  function group(f) {
    if (f.kind !== "js" && f.kind !== "wasm") return f.mark ? "" : f.module.slice(f.module.lastIndexOf("/") + 1) || "unknown";
    if (f.file.startsWith("node:")) return "Node.js library";
    const packaged = f.file.match(/.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/);
    return packaged ? packaged[1] : "application";
  }

  // hash is FNV-1a; shade and turn spread it over [0, 1], apart from each other.
  function hash(text) {
    let h = 0x811c9dc5;
    for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
    return h >>> 0;
  }
  const shade = (h) => (h % 251) / 250;
  const turn = (h) => (Math.floor(h / 251) % 241) / 240;

  function newNode(f, parent) {
    return { f, parent, self: 0, total: 0, was: 0, tiers: null, lines: new Map(), inlined: 0, kids: new Map(), x: 0, level: parent ? parent.level + 1 : 0, hit: false };
  }

  function child(node, id) {
    let kid = node.kids.get(id);
    if (!kid) {
      kid = newNode(functions[id], node);
      node.kids.set(id, kid);
    }
    return kid;
  }

  function addTier(node, tier, count) {
    node.tiers = node.tiers || new Array(data.tiers.length).fill(0);
    node.tiers[tier] += count;
  }

  // addTree counts a thread's nodes into the tree as they are: callers below
  // their callees.
  function addTree(root, tree) {
    const path = [root], nodes = [];
    for (let i = 0; i < tree.nodes.length; i += 3) {
      const [id, level, self] = tree.nodes.slice(i, i + 3);
      const node = child(path[level], id);
      path.length = level + 1;
      path.push(node);
      node.self += self;
      for (const on of path) on.total += self;
      nodes.push(node);
    }
    for (let i = 0; i < tree.tiers.length; i += 3) {
      addTier(nodes[tree.tiers[i]], tree.tiers[i + 1], tree.tiers[i + 2]);
    }
    const lines = tree.lines || [], inlined = tree.inlined || [];
    for (let i = 0; i < lines.length; i += 3) {
      const known = nodes[lines[i]].lines;
      known.set(lines[i + 1], (known.get(lines[i + 1]) || 0) + lines[i + 2]);
    }
    for (let i = 0; i < inlined.length; i += 2) nodes[inlined[i]].inlined += inlined[i + 1];
    const was = tree.was || [];
    for (let i = 0; i < was.length; i += 2) {
      for (let on = nodes[was[i]]; on; on = on.parent) on.was += was[i + 1];
    }
  }

  // addReversed counts a thread's stacks into the tree from their leaves. It is not
  // known which of them are in which line.
  function addReversed(root, tree) {
    const path = [], tiers = new Map(), before = new Map();
    for (let i = 0; tree.was && i < tree.was.length; i += 2) before.set(tree.was[i], tree.was[i + 1]);
    for (let i = 0; i < tree.tiers.length; i += 3) {
      const known = tiers.get(tree.tiers[i]);
      if (!known || known.count < tree.tiers[i + 2]) tiers.set(tree.tiers[i], { tier: tree.tiers[i + 1], count: tree.tiers[i + 2] });
    }
    for (let i = 0; i < tree.nodes.length; i += 3) {
      const [id, level, self] = tree.nodes.slice(i, i + 3);
      path.length = level;
      path.push({ id, tier: tiers.get(i / 3) });
      const was = before.get(i / 3) || 0;
      if (!self && !was) continue;
      root.total += self;
      root.was += was;
      let node = root;
      for (let j = level; j >= 0; j--) {
        node = child(node, path[j].id);
        node.total += self;
        node.was += was;
        if (self && path[j].tier) addTier(node, path[j].tier.tier, self);
      }
      node.self += self;
    }
  }

  function build() {
    const root = newNode(all, null);
    for (const thread of chosen()) (state.reversed ? addReversed : addTree)(root, state.everything ? thread.all : thread.program);
    place(root);
    graph.load(root);
  }

  const order = (a, b) => (a < b ? -1 : Number(a > b));

  // place sorts the callees of each node from start on, and sets where each starts.
  function place(start) {
    const open = [start];
    while (open.length > 0) {
      const node = open.pop();
      node.kids = [...node.kids.values()].sort((a, b) => order(a.f.name, b.f.name) || order(a.f.place, b.f.place));
      let x = node.x;
      for (const kid of node.kids) {
        kid.x = x;
        x += kid.total;
        open.push(kid);
      }
    }
  }

  // chooseEvent returns the data of the event that the address names, and has the list of events, if
  // there are several, show the page again with another one.
  function chooseEvent() {
    const select = byId("event");
    const number = select && Number((/\bevent=(\d+)/.exec(location.hash) || [0, 0])[1]);
    const other = number ? JSON.parse(byId("others").textContent)[number - 1] : undefined;
    if (select) {
      select.selectedIndex = other ? number : 0;
      select.addEventListener("change", () => {
        location.hash = "event=" + select.selectedIndex;
        location.reload();
      });
    }
    if (!other) return JSON.parse(byId("data").textContent);
    document.title = document.querySelector("h1").textContent = other.title;
    byId("summary").textContent = other.summary + " " + other.losses;
    return other.data;
  }

  const state = { everything: data.native, icicle: false, reversed: false, color: data.change ? "change" : "kind" };
  const choice = data.threads.some((t) => t.program); // between the program's functions and everything

  function chosen() {
    const [what, number] = byId("thread").value.split(" ");
    if (what === "process") return data.threads.filter((t) => t.pid === Number(number));
    return what === "thread" ? [data.threads[number]] : data.threads;
  }

  function offerThreads() {
    const select = byId("thread");
    const count = (threads) => threads.reduce((sum, t) => sum + t.all.nodes.reduce((s, n, i) => s + (i % 3 === 2 ? n : 0), 0), 0);
    const offer = (value, label, threads) => select.add(new Option(label + " – " + count(threads), value));
    const pids = [...new Set(data.threads.map((t) => t.pid))];
    offer("all", pids.length > 1 ? "All processes" : "All threads", data.threads);
    for (const pid of pids) {
      if (pids.length > 1) offer("process " + pid, "Process " + pid, data.threads.filter((t) => t.pid === pid));
      data.threads.forEach((t, i) => t.pid === pid && offer("thread " + i, (t.name || "thread") + " " + t.tid, [t]));
    }
    select.hidden = data.threads.length < 2;
  }

  const tierColors = { interpreted: "#e8a0a0", baseline: "#f2c48d", maglev: "#ecdf8f", turbofan: "#9fd3a4", optimized: "#9cc7d8", liftoff: "#c3a6dd" };
  const gray = "#d5d8dc";
  const hsl = (h, s, l) => "hsl(" + h.toFixed(0) + " " + s.toFixed(0) + "% " + l.toFixed(1) + "%)";

  function tierOf(node) {
    if (!node.tiers) return 0;
    return node.tiers.reduce((best, n, i) => (n > node.tiers[best] ? i : best), 0);
  }

  const shareColor = (share) => hsl(38 - 24 * share, 30 + 50 * share, 89 - 18 * share);

  // groupHues gives each module a hue, the one with most samples first; each
  // next hue is a golden angle on, far from those before it.
  const groupHues = new Map();
  (function () {
    const samples = new Map(functions.map((f) => [f.group, 0]));
    for (const t of data.threads) {
      for (let i = 0; i < t.all.nodes.length; i += 3) {
        const f = functions[t.all.nodes[i]];
        samples.set(f.group, samples.get(f.group) + t.all.nodes[i + 2]);
      }
    }
    const ranked = [...samples].sort((a, b) => b[1] - a[1] || order(a[0], b[0]));
    ranked.forEach(([name], i) => groupHues.set(name, (28 + i * 137.508) % 360));
  })();

  // points is the change of a node's share in percentage points; 0 within noise.
  function points(node, noisy) {
    const { unit, tested, noise, dispersion, independent } = data.change;
    const root = graph.root, share = (n, whole) => (whole ? n / whole : 0);
    const by = share(node.total, root.total) - share(node.was, root.was);
    if (!tested || noisy) return 100 * by;
    const effective = (n) => n / unit / (dispersion + n / unit / independent);
    const n = effective(root.was), m = effective(root.total);
    const both = (share(node.was, root.was) * n + share(node.total, root.total) * m) / (n + m);
    const deviation = Math.sqrt(both * (1 - both) * (1 / n + 1 / m));
    return Math.abs(by) - (1 / n + 1 / m) / 2 >= noise * deviation ? 100 * by : 0;
  }

  const changed = (by) => {
    const part = Math.sqrt(Math.min(1, Math.abs(by) / data.change.most));
    return by === 0 ? "#e8ebee" : by > 0 ? hsl(4, 82, 92 - 30 * part) : hsl(212, 72, 92 - 30 * part);
  };

  const colors = {
    change: (node) => changed(points(node)),
    kind(node) {
      if (node.f.mark) return gray;
      const { from, span, saturation } = node.f.hue;
      return hsl(from + turn(node.f.hash) * span, 100 * saturation, 66 + 12 * shade(node.f.hash));
    },
    depth: (node) => hsl(8 + (47 * node.level) / Math.max(graph.rows.length - 1, 1), 82, 70),
    share: (node) => shareColor(node.parent ? node.total / node.parent.total : 1),
    module: (node) => (node.f.mark ? gray : hsl(groupHues.get(node.f.group), 52, 72 + 6 * shade(node.f.hash))),
    tier: (node) => tierColors[data.tiers[tierOf(node)]] || gray,
  };

  // legends lists what the colours of a mode mean: labels and colours.
  const legends = {
    change: () => [["grew", changed(100)], ["shrank", changed(-100)], ["within noise", changed(0)]],
    kind: () => data.legend.map(({ label, color }) => [label, color]),
    depth: () => [["root", hsl(8, 82, 70)], ["leaf", hsl(55, 82, 70)]],
    share: () => [0.1, 0.5, 1].map((share) => [100 * share + "%", shareColor(share)]),
    module: () => [...groupHues].filter(([name]) => name).slice(0, 7).map(([name, hue]) => [name, hsl(hue, 52, 75)]),
    tier: () => [...Object.entries(tierColors), ["neither JavaScript nor WebAssembly", gray]],
  };

  function drawLegend() {
    byId("legend").replaceChildren(...legends[state.color]().map(([label, color]) => {
      const entry = document.createElement("span"), swatch = document.createElement("i");
      swatch.style.background = color;
      entry.append(swatch, label);
      return entry;
    }));
  }

  let width = 0, height = 0; // of the canvas, in CSS pixels

  const scale = () => width / Math.max(graph.zoomed.total, 1);
  const top = (level) => (state.icicle ? level : graph.rows.length - 1 - level) * rowHeight - stage.scrollTop;

  // box returns where node is on the canvas, and null if it is not.
  function box(node) {
    const span = graph.span(node);
    return span && { x: span.start * scale(), y: top(node.level), w: span.width * scale() };
  }

  // first finds where the nodes of a row begin that end right of x.
  function first(row, x) {
    let low = 0, high = row.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (row[mid].x + row[mid].total <= x) low = mid + 1;
      else high = mid;
    }
    return low;
  }

  // theme returns the values of graph.css.
  function theme() {
    const style = getComputedStyle(document.documentElement);
    const value = (name) => style.getPropertyValue(name).trim();
    return {
      ink: value("--ink"), label: value("--label"), hit: value("--hit"), font: "11px " + value("--mono"),
      dimmed: Number(value("--dimmed")), caller: Number(value("--caller")),
    };
  }

  function drawBox(node, look) {
    const b = box(node);
    if (!b || b.w < 0.3 || (node !== graph.root && 100 * node.total < data.min * graph.root.total)) return;
    const dimmed = graph.searched && !node.hit;
    context.globalAlpha = dimmed ? look.dimmed : graph.calls(node) ? look.caller : 1;
    context.fillStyle = node.hit ? look.hit : colors[state.color](node);
    context.beginPath();
    context.roundRect(b.x, b.y, Math.max(b.w - 0.5, 0.3), rowHeight - 1, Math.min(2, b.w / 2));
    context.fill();
    if (node === graph.hovered || (node === graph.selected && node !== graph.root)) {
      context.strokeStyle = look.ink;
      context.stroke();
    }
    const label = fit(node.f.name, Math.floor((b.w - 2 * pad) / look.charWidth));
    if (!label) return;
    context.globalAlpha = dimmed ? 0.6 : context.globalAlpha;
    context.fillStyle = dimmed ? look.ink : look.label;
    context.fillText(label, b.x + pad, b.y + 12.5);
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1, look = theme();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = look.font;
    look.charWidth = context.measureText("m").width;
    const z = graph.zoomed;
    graph.rows.forEach((row, level) => {
      const y = top(level);
      if (y + rowHeight < 0 || y > height) return;
      for (let i = first(row, z.x); i < row.length && (row[i].x < z.x + z.total || row[i] === z); i++) drawBox(row[i], look);
      if (z.total === 0 && row.includes(z)) drawBox(z, look);
    });
    context.globalAlpha = 1;
  }

  function resize() {
    const content = graph.rows.length * rowHeight;
    const ratio = window.devicePixelRatio || 1;
    extent.style.height = content + "px";
    width = stage.clientWidth;
    height = Math.min(content, stage.clientHeight);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
  }

  // show draws all of it anew; the root comes into sight.
  function show() {
    resize();
    stage.scrollTop = state.icicle ? 0 : stage.scrollHeight;
    byId("program").setAttribute("aria-pressed", !state.everything);
    byId("everything").setAttribute("aria-pressed", state.everything);
    byId("invert").setAttribute("aria-pressed", state.icicle);
    byId("reverse").setAttribute("aria-pressed", state.reversed);
    drawLegend();
    graph.refresh();
  }

  // everywhere sums what a function has in all of the tree; a stack counts once.
  function everywhere(f) {
    let total = 0, self = 0;
    const within = (node) => {
      for (let on = node.parent; on; on = on.parent) if (on.f === f) return true;
      return false;
    };
    for (const row of graph.rows) {
      for (const node of row) {
        if (node.f !== f) continue;
        self += node.self;
        if (!within(node)) total += node.total;
      }
    }
    return { total, self };
  }

  // amount returns a value in the largest unit in which it is 1 or more.
  function amount(n) {
    const [factor, ...units] = { nanoseconds: [1000, "ns", "µs", "ms", "s"], bytes: [1024, "B", "KB", "MB", "GB", "TB"] }[data.unit] || [0, ""];
    let value = n;
    while (units.length > 1 && value >= factor) {
      value /= factor;
      units.shift();
    }
    return (value === n ? n : value.toPrecision(4)) + (units[0] && " " + units[0]);
  }

  function showDetails(node) {
    const root = graph.root;
    const heading = document.createElement("h2"), where = document.createElement("p"), keys = document.createElement("p");
    heading.textContent = node === root ? "all " + data.value : node.f.full;
    where.textContent = [node.f.place, node.f.kind !== "js" ? node.f.kind : ""].filter(Boolean).join(" · ");
    keys.textContent = hints;
    keys.className = "keys";
    const table = document.createElement("table");
    const share = (n, whole) => amount(n) + " · " + (whole ? (100 * n) / whole : 0).toFixed(2) + "%";
    const line = (label, value) => {
      const tr = table.insertRow(), th = document.createElement("th");
      th.textContent = label;
      tr.append(th);
      if (value === undefined) {
        tr.className = "head";
        th.colSpan = 2;
      } else tr.insertCell().textContent = value;
    };
    line("Here");
    line(data.value, share(node.total, root.total));
    line(state.reversed ? "of them, stacks that begin here" : "of them, in itself", share(node.self, root.total));
    if (node !== root) line(state.reversed ? "share of its callee" : "share of its caller", ((100 * node.total) / node.parent.total).toFixed(2) + "%");
    if (data.change) {
      line("before", share(node.was, root.was));
      line("change in points", (points(node, true) >= 0 ? "+" : "") + points(node, true).toFixed(2));
    }
    if (node.inlined) line("of them, inlined in its caller", share(node.inlined, node.total));
    if (node !== root && !state.reversed) {
      const sum = everywhere(node.f);
      line("Everywhere");
      line(data.value, share(sum.total, root.total));
      line("of them, in itself", share(sum.self, root.total));
    }
    if (node.tiers) {
      line("Tiers");
      node.tiers.forEach((n, tier) => n && line(data.tiers[tier], share(n, node.total)));
    }
    if (node.lines.size) {
      line(node.kids.length ? "Lines that run or call" : "Lines that run");
      const busiest = [...node.lines].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
      for (const [number, n] of busiest.slice(0, shownLines)) line("line " + number, share(n, node.total));
      if (busiest.length > shownLines) line("other lines", share(busiest.slice(shownLines).reduce((sum, [, n]) => sum + n, 0), node.total));
    }
    byId("details").replaceChildren(heading, where, table, keys);
  }

  function nodeAt(e) {
    const r = canvas.getBoundingClientRect();
    const x = e.clientX - r.left, fromTop = Math.floor((e.clientY - r.top + stage.scrollTop) / rowHeight);
    const level = state.icicle ? fromTop : graph.rows.length - 1 - fromTop;
    const row = graph.rows[level];
    if (!row) return null;
    const node = row[first(row, graph.zoomed.x + x / scale())];
    const b = node && box(node);
    return b && x >= b.x && x < b.x + b.w ? node : null;
  }

  function reveal(node) {
    const y = top(node.level);
    if (y < 0 || y + rowHeight > height) stage.scrollTop += y < 0 ? y : y + rowHeight - height;
  }

  function toggle(what) {
    state[what] = !state[what];
    if (what !== "icicle") build();
    show();
  }

  function point() {
    canvas.style.cursor = graph.hovered ? "pointer" : "default";
    draw();
  }

  const graph = flameGraph({
    draw, point, reveal, details: showDetails,
    focus: () => stage.focus(),
    inverted: () => state.icicle,
    keys: { i: () => toggle("icicle"), r: () => toggle("reversed"), j: () => choice && toggle("everything") },
  });

  canvas.addEventListener("mousemove", (e) => graph.hover(nodeAt(e)));
  canvas.addEventListener("mouseleave", () => graph.hover(null));
  canvas.addEventListener("click", (e) => {
    const node = nodeAt(e);
    if (node) graph.zoom(node);
  });
  stage.addEventListener("scroll", draw);
  byId("functions").hidden = !choice;
  for (const id of ["program", "everything"]) {
    byId(id).addEventListener("click", () => { if (state.everything !== (id === "everything")) toggle("everything"); });
  }
  byId("invert").addEventListener("click", () => toggle("icicle"));
  byId("reverse").addEventListener("click", () => toggle("reversed"));
  byId("thread").addEventListener("change", () => { build(); show(); });
  byId("color").addEventListener("change", (e) => { state.color = e.target.value; drawLegend(); draw(); });
  window.addEventListener("resize", () => { resize(); draw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  if (data.change) {
    byId("color").prepend(new Option("by change", "change", true, true));
  }
  offerThreads();
  build();
  show();
  stage.focus();
})();
