
"use strict";
(function () {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const stage = byId("stage"), canvas = byId("canvas"), extent = byId("extent");
  const context = canvas.getContext("2d");
  const rowHeight = 18, pad = 4, labelFont = '11px "DejaVu Sans Mono", ui-monospace, Menlo, Consolas, monospace';
  const hints = "Click or Enter zooms, Esc goes back. Arrows move. / or Ctrl-F searches. i turns the graph over, r merges stacks from the leaf.";

  const functions = data.names.map((name, i) => {
    const [kind, file, line, column, module] = data.frames.slice(5 * i, 5 * i + 5);
    const f = {
      name, kind: data.kinds[kind], module: module ? data.modules[module - 1] : "",
      file: file ? data.files[file - 1] : "", mark: kind === 0 && !module && name.startsWith("["),
    };
    f.place = f.file ? f.file + (line > 0 ? ":" + line + (column > 0 ? ":" + column : "") : "") : f.module;
    f.group = group(f);
    f.hash = hash(name);
    return f;
  });
  const all = { name: "all", kind: "", module: "", file: "", place: "", group: "", mark: true, hash: 0 };

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

  let root, rows; // rows: each level's nodes from left to right

  function newNode(f, parent) {
    return { f, parent, self: 0, total: 0, tiers: null, kids: new Map(), x: 0, level: parent ? parent.level + 1 : 0, hit: false };
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

  // addThread counts a thread's nodes into the tree as they are: callers below
  // their callees.
  function addThread(thread) {
    const path = [root], nodes = [];
    for (let i = 0; i < thread.nodes.length; i += 3) {
      const [id, level, self] = thread.nodes.slice(i, i + 3);
      const node = child(path[level], id);
      path.length = level + 1;
      path.push(node);
      node.self += self;
      for (const on of path) on.total += self;
      nodes.push(node);
    }
    for (let i = 0; i < thread.tiers.length; i += 3) {
      addTier(nodes[thread.tiers[i]], thread.tiers[i + 1], thread.tiers[i + 2]);
    }
  }

  // addReversed counts a thread's stacks into the tree from their leaves.
  function addReversed(thread) {
    const path = [], tiers = new Map();
    for (let i = 0; i < thread.tiers.length; i += 3) {
      const known = tiers.get(thread.tiers[i]);
      if (!known || known.count < thread.tiers[i + 2]) tiers.set(thread.tiers[i], { tier: thread.tiers[i + 1], count: thread.tiers[i + 2] });
    }
    for (let i = 0; i < thread.nodes.length; i += 3) {
      const [id, level, self] = thread.nodes.slice(i, i + 3);
      path.length = level;
      path.push({ id, tier: tiers.get(i / 3) });
      if (!self) continue;
      root.total += self;
      let node = root;
      for (let j = level; j >= 0; j--) {
        node = child(node, path[j].id);
        node.total += self;
        if (path[j].tier) addTier(node, path[j].tier.tier, self);
      }
      node.self += self;
    }
  }

  function build() {
    root = newNode(all, null);
    for (const thread of chosen()) (state.reversed ? addReversed : addThread)(thread);
    rows = [];
    place(root);
    state.zoomed = state.selected = root;
    state.hovered = null;
    markHits();
  }

  const order = (a, b) => (a < b ? -1 : Number(a > b));

  // place gives node and all its kids their places in rows.
  function place(start) {
    const open = [start];
    while (open.length > 0) {
      const node = open.pop();
      (rows[node.level] = rows[node.level] || []).push(node);
      node.kids = [...node.kids.values()].sort((a, b) => order(a.f.name, b.f.name) || order(a.f.place, b.f.place));
      let x = node.x;
      for (const kid of node.kids) {
        kid.x = x;
        x += kid.total;
      }
      for (let i = node.kids.length - 1; i >= 0; i--) open.push(node.kids[i]);
    }
  }

  const state = { icicle: false, reversed: false, color: "kind", zoomed: null, selected: null, hovered: null, pattern: null };

  function chosen() {
    const [what, number] = byId("thread").value.split(" ");
    if (what === "process") return data.threads.filter((t) => t.pid === Number(number));
    return what === "thread" ? [data.threads[number]] : data.threads;
  }

  function offerThreads() {
    const select = byId("thread");
    const count = (threads) => threads.reduce((sum, t) => sum + t.nodes.reduce((s, n, i) => s + (i % 3 === 2 ? n : 0), 0), 0);
    const offer = (value, label, threads) => select.add(new Option(label + " – " + count(threads), value));
    const pids = [...new Set(data.threads.map((t) => t.pid))];
    offer("all", pids.length > 1 ? "All processes" : "All threads", data.threads);
    for (const pid of pids) {
      if (pids.length > 1) offer("process " + pid, "Process " + pid, data.threads.filter((t) => t.pid === pid));
      data.threads.forEach((t, i) => t.pid === pid && offer("thread " + i, (t.name || "thread") + " " + t.tid, [t]));
    }
    select.hidden = data.threads.length < 2;
  }

  const hues = { js: [26, 22, 86], builtin: [152, 22, 42], native: [204, 18, 58], kernel: [272, 24, 48], typed: [60, 10, 14], wasm: [318, 22, 52], regexp: [2, 12, 60] };
  const kindLabels = { js: "JavaScript", wasm: "WebAssembly", regexp: "RegExp", builtin: "V8 builtin", native: "native", kernel: "kernel" };
  const tierColors = { interpreted: "#e8a0a0", baseline: "#f2c48d", maglev: "#ecdf8f", turbofan: "#9fd3a4", optimized: "#9cc7d8", liftoff: "#c3a6dd" };
  const gray = "#d5d8dc", hit = "#e64bbf";
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
      for (let i = 0; i < t.nodes.length; i += 3) {
        const f = functions[t.nodes[i]];
        samples.set(f.group, samples.get(f.group) + t.nodes[i + 2]);
      }
    }
    const ranked = [...samples].sort((a, b) => b[1] - a[1] || order(a[0], b[0]));
    ranked.forEach(([name], i) => groupHues.set(name, (28 + i * 137.508) % 360));
  })();

  const colors = {
    kind(node) {
      const [from, span, saturation] = hues[node.f.kind] || hues.typed;
      return node.f.mark ? gray : hsl(from + turn(node.f.hash) * span, saturation, 66 + 12 * shade(node.f.hash));
    },
    depth: (node) => hsl(8 + (47 * node.level) / Math.max(rows.length - 1, 1), 82, 70),
    share: (node) => shareColor(node.parent ? node.total / node.parent.total : 1),
    module: (node) => (node.f.mark ? gray : hsl(groupHues.get(node.f.group), 52, 72 + 6 * shade(node.f.hash))),
    tier: (node) => tierColors[data.tiers[tierOf(node)]] || gray,
  };

  // legends lists what the colours of a mode mean: labels and colours.
  const legends = {
    kind: () => Object.keys(kindLabels).map((k) => [kindLabels[k], hsl(hues[k][0] + hues[k][1] / 2, hues[k][2], 72)]),
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

  const scale = () => width / Math.max(state.zoomed.total, 1);
  const above = (node) => node.level < state.zoomed.level && node.x <= state.zoomed.x && node.x + node.total >= state.zoomed.x + state.zoomed.total;
  const top = (level) => (state.icicle ? level : rows.length - 1 - level) * rowHeight - stage.scrollTop;

  // box returns where node is on the canvas, and null if it is not.
  function box(node) {
    const z = state.zoomed;
    const from = Math.max(node.x, z.x), to = Math.min(node.x + node.total, z.x + z.total);
    if (node !== z && !above(node) && (node.level <= z.level || from >= to)) return null;
    return { x: (from - z.x) * scale(), y: top(node.level), w: Math.max(to - from, node === root ? 1 : 0) * scale() };
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

  function fit(name, room) {
    let used = 0, end = 0;
    for (const c of name) {
      used += c.codePointAt(0) >= 0x1100 ? 2 : 1;
      if (used > room) return room < 3 ? "" : name.slice(0, end) + "…";
      if (used < room) end += c.length;
    }
    return name;
  }

  function drawBox(node, charWidth) {
    const b = box(node);
    if (!b || b.w < 0.3 || (node !== root && 100 * node.total < data.min * root.total)) return;
    const dimmed = state.pattern && !node.hit;
    context.globalAlpha = dimmed ? 0.25 : above(node) ? 0.45 : 1;
    context.fillStyle = node.hit ? hit : colors[state.color](node);
    context.beginPath();
    context.roundRect(b.x, b.y, Math.max(b.w - 0.5, 0.3), rowHeight - 1, Math.min(2, b.w / 2));
    context.fill();
    if (node === state.hovered || (node === state.selected && node !== root)) {
      context.strokeStyle = getComputedStyle(document.body).color;
      context.stroke();
    }
    const label = fit(node.f.name, Math.floor((b.w - 2 * pad) / charWidth));
    if (!label) return;
    context.globalAlpha = dimmed ? 0.6 : context.globalAlpha;
    context.fillStyle = dimmed ? getComputedStyle(document.body).color : "#10151c";
    context.fillText(label, b.x + pad, b.y + 12.5);
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = labelFont;
    const charWidth = context.measureText("m").width;
    const z = state.zoomed;
    rows.forEach((row, level) => {
      const y = top(level);
      if (y + rowHeight < 0 || y > height) return;
      for (let i = first(row, z.x); i < row.length && (row[i].x < z.x + z.total || row[i] === z); i++) drawBox(row[i], charWidth);
      if (z.total === 0 && row.includes(z)) drawBox(z, charWidth);
    });
    context.globalAlpha = 1;
  }

  function resize() {
    const content = rows.length * rowHeight;
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
    byId("invert").setAttribute("aria-pressed", state.icicle);
    byId("reverse").setAttribute("aria-pressed", state.reversed);
    drawLegend();
    refresh();
  }

  function refresh() {
    byId("reset").hidden = state.zoomed === root;
    tellMatched();
    tellDetails(state.hovered || state.selected);
    draw();
  }

  function pattern(term) {
    try {
      return new RegExp(term, "i");
    } catch {
      return new RegExp(term.replace(/[^\w\s]/g, "\\$&"), "i");
    }
  }

  function markHits() {
    const re = state.pattern, known = new Map();
    for (const row of rows) {
      for (const node of row) {
        if (!known.has(node.f)) known.set(node.f, Boolean(re) && node !== root && (re.test(node.f.name + " " + node.f.place) || re.test(node.f.module)));
        node.hit = known.get(node.f);
      }
    }
  }

  // matched counts the samples of the zoomed node whose stack has a hit, each once.
  function matched() {
    const z = state.zoomed;
    for (let on = z; on; on = on.parent) if (on.hit) return z.total;
    let sum = 0;
    const open = [...z.kids];
    while (open.length > 0) {
      const node = open.pop();
      if (node.hit) sum += node.total;
      else open.push(...node.kids);
    }
    return sum;
  }

  function tellMatched() {
    const share = state.zoomed.total ? (100 * matched()) / state.zoomed.total : 0;
    byId("matched").textContent = state.pattern ? share.toFixed(1) + "% matched" : "";
  }

  // everywhere sums what a function has in all of the tree; a stack counts once.
  function everywhere(f) {
    let total = 0, self = 0;
    const within = (node) => {
      for (let on = node.parent; on; on = on.parent) if (on.f === f) return true;
      return false;
    };
    for (const row of rows) {
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

  function tellDetails(node) {
    const heading = document.createElement("h2"), where = document.createElement("p"), keys = document.createElement("p");
    heading.textContent = node === root ? "all " + data.value : node.f.name;
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
    byId("details").replaceChildren(heading, where, table, keys);
  }

  function nodeAt(e) {
    const r = canvas.getBoundingClientRect();
    const x = e.clientX - r.left, fromTop = Math.floor((e.clientY - r.top + stage.scrollTop) / rowHeight);
    const level = state.icicle ? fromTop : rows.length - 1 - fromTop;
    const row = rows[level];
    if (!row) return null;
    const node = row[first(row, state.zoomed.x + x / scale())];
    const b = node && box(node);
    return b && x >= b.x && x < b.x + b.w ? node : null;
  }

  function zoom(node) {
    state.zoomed = state.selected = node;
    refresh();
  }

  // move selects a neighbour of the selected node: its caller or widest callee,
  // or the next one in its row.
  function move(key) {
    const at = state.selected, row = rows[at.level];
    const outward = (key === "ArrowUp") !== state.icicle;
    let to = null;
    if (key === "ArrowLeft" || key === "ArrowRight") to = row[row.indexOf(at) + (key === "ArrowLeft" ? -1 : 1)];
    else if (outward) to = at.kids.reduce((best, kid) => (best && best.total >= kid.total ? best : kid), null);
    else to = at.parent;
    if (!to || !box(to)) return;
    state.selected = to;
    state.hovered = null;
    const y = top(to.level);
    if (y < 0 || y + rowHeight > height) stage.scrollTop += y < 0 ? y : y + rowHeight - height;
    refresh();
  }

  function search(term) {
    state.pattern = term ? pattern(term) : null;
    markHits();
    refresh();
  }

  function toggle(what) {
    state[what] = !state[what];
    if (what === "reversed") build();
    show();
  }

  function escape() {
    if (byId("term").value) {
      byId("term").value = "";
      search("");
    } else {
      zoom(root);
    }
    stage.focus();
  }

  function onKey(e) {
    const typing = e.target === byId("term");
    if (((e.ctrlKey || e.metaKey) && e.key === "f") || (e.key === "/" && !typing)) {
      byId("term").focus();
      byId("term").select();
    } else if (e.key === "Escape") escape();
    else if (typing || e.target.localName === "select" || e.ctrlKey || e.metaKey || e.altKey) return;
    else if (e.key === "Enter" && e.target.localName !== "button") zoom(state.selected);
    else if (e.key === "i") toggle("icicle");
    else if (e.key === "r") toggle("reversed");
    else if (e.key.startsWith("Arrow")) move(e.key);
    else return;
    e.preventDefault();
  }

  function hover(node) {
    if (node === state.hovered) return;
    state.hovered = node;
    canvas.style.cursor = node ? "pointer" : "default";
    tellDetails(node || state.selected);
    draw();
  }

  canvas.addEventListener("mousemove", (e) => hover(nodeAt(e)));
  canvas.addEventListener("mouseleave", () => hover(null));
  canvas.addEventListener("click", (e) => {
    const node = nodeAt(e);
    if (node) zoom(node);
  });
  stage.addEventListener("scroll", draw);
  byId("reset").addEventListener("click", () => zoom(root));
  byId("invert").addEventListener("click", () => toggle("icicle"));
  byId("reverse").addEventListener("click", () => toggle("reversed"));
  byId("term").addEventListener("input", (e) => search(e.target.value));
  byId("thread").addEventListener("change", () => { build(); show(); });
  byId("color").addEventListener("change", (e) => { state.color = e.target.value; drawLegend(); draw(); });
  window.addEventListener("keydown", onKey);
  window.addEventListener("resize", () => { resize(); draw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  offerThreads();
  build();
  show();
  stage.focus();
})();
