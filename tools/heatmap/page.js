// A canvas with time to the right and latency upwards; the colour of a cell says
// how many values are in it. Any cell that has one has a colour.
(function () {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const stage = byId("stage"), canvas = byId("canvas"), context = canvas.getContext("2d");
  const fine = 8; // buckets per power of two: package quantize
  const margin = { left: 62, right: 8, top: 8, bottom: 36 };
  const least = 2; // pixels of a cell, however many there are
  const hints = "Point at a cell, or move with the arrow keys: with Shift to the next cell that is not empty; Home and End to the first and the last column. s and p go to the next kind of work and the next part of the time.";
  const shownSeries = 8; // in the details

  // low returns the least value of a bucket, in ns.
  function low(bucket) {
    if (bucket < fine) return bucket;
    return (fine + (bucket % fine)) * 2 ** (Math.floor(bucket / fine) - 1);
  }

  const columns = Math.max(data.times.length - 1, 0);
  const state = { cursor: null, hovered: null };
  let grid = null; // of what is chosen: cells by column and row

  // rowOf returns the row of a bucket, so that there are so many per power of
  // two; small values have a bucket each, and powers below them fewer rows.
  const step = () => fine / Number(byId("rows").value);
  const rowOf = (bucket) => Math.floor(bucket / step());

  function chosen() {
    const value = byId("series").value;
    return value === "all" ? data.series : [data.series[Number(value)]];
  }

  // build sums the chosen series' cells.
  function build() {
    const part = Number(byId("part").value);
    const cells = new Map();
    let bottom = Infinity, top = -Infinity, most = 0, total = 0;
    for (const series of chosen()) {
      const list = series.cells[part];
      for (let i = 0; i < list.length; i += 3) {
        const row = rowOf(list[i + 1]), key = row * columns + list[i];
        const n = (cells.get(key) || 0) + list[i + 2];
        cells.set(key, n);
        bottom = Math.min(bottom, row);
        top = Math.max(top, row);
        most = Math.max(most, n);
        total += list[i + 2];
      }
    }
    if (!cells.size) bottom = top = 0;
    // Cells with few values are drawn last: where a cell is less than its least
    // size, it is on top of its neighbours.
    const drawn = [...cells].sort((a, b) => b[1] - a[1]);
    grid = { cells, drawn, bottom, top, rows: top - bottom + 1, most, total };
    if (state.cursor) state.cursor.row = Math.min(Math.max(state.cursor.row, bottom), top);
  }

  const count = (column, row) => grid.cells.get(row * columns + column) || 0;

  let width = 0, height = 0; // of the canvas, in CSS pixels

  const duration = () => data.times[columns] || 1;
  const plotWidth = () => Math.max(width - margin.left - margin.right, 1);
  const plotHeight = () => Math.max(height - margin.top - margin.bottom, 1);
  const x = (ms) => margin.left + (plotWidth() * ms) / duration();
  const y = (row) => margin.top + (plotHeight() * (grid.top + 1 - row)) / grid.rows; // lower edge

  // theme returns the values of page.css.
  function theme() {
    const css = getComputedStyle(document.documentElement);
    const value = (name) => css.getPropertyValue(name).trim();
    const numbers = (name) => value(name).split(" ").map(Number);
    return { ink: value("--ink"), soft: value("--soft"), line: value("--line"), few: numbers("--few"), many: numbers("--many"), font: "11px " + value("--text") };
  }

  // color is on a logarithmic scale from the colour of 1 to that of the most.
  function color(n, look) {
    const t = grid.most > 1 ? Math.log(n) / Math.log(grid.most) : 0;
    const [h, s, l] = look.few.map((from, i) => from + (look.many[i] - from) * t);
    return "hsl(" + ((h + 360) % 360).toFixed(1) + " " + s.toFixed(1) + "% " + l.toFixed(1) + "%)";
  }

  // time writes nanoseconds in the largest unit in which they are 1 or more.
  function time(ns) {
    const units = ["ns", "µs", "ms", "s"];
    let value = ns;
    while (units.length > 1 && value >= 1000) {
      value /= 1000;
      units.shift();
    }
    return (Number.isInteger(value) ? value : Number(value.toPrecision(3))) + " " + units[0];
  }

  const clock = (ms) => {
    const at = new Date(data.begin + ms), two = (n) => String(n).padStart(2, "0");
    return two(at.getHours()) + ":" + two(at.getMinutes()) + ":" + two(at.getSeconds()) + "." + String(at.getMilliseconds()).padStart(3, "0");
  };

  function drawAxes(look) {
    context.font = look.font;
    context.strokeStyle = look.line;
    context.lineWidth = 1;
    context.fillStyle = look.soft;
    context.textAlign = "right";
    context.textBaseline = "middle";
    let last = Infinity;
    for (let row = grid.bottom; row <= grid.top + 1; row++) {
      const at = y(row);
      if (last - at < 22) continue;
      last = at;
      context.fillText(time(low(row * step())), margin.left - 6, at);
      line(margin.left, at, width - margin.right, at);
    }
    context.textBaseline = "top";
    const ticks = Math.max(Math.floor(plotWidth() / 130), 1);
    for (let i = 0; i <= ticks; i++) {
      const ms = (duration() * i) / ticks, at = x(ms);
      context.textAlign = i === 0 ? "left" : i === ticks ? "right" : "center";
      context.fillText(clock(ms), at, height - margin.bottom + 6);
      context.fillText("+" + Number((ms / 1000).toPrecision(3)) + " s", at, height - margin.bottom + 20);
      line(at, margin.top, at, height - margin.bottom);
    }
  }

  function line(x1, y1, x2, y2) {
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
    context.stroke();
  }

  // box returns where a cell is on the canvas.
  function box({ column, row }) {
    const left = x(data.times[column]), right = x(data.times[column + 1]);
    const w = Math.max(right - left, least), h = Math.max(plotHeight() / grid.rows, least);
    return { x: Math.min(left, width - margin.right - w), y: Math.max(y(row) - h, margin.top), w, h };
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1, look = theme();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    drawAxes(look);
    for (const [key, n] of grid.drawn) {
      const b = box({ column: key % columns, row: Math.floor(key / columns) });
      context.fillStyle = color(n, look);
      context.fillRect(b.x, b.y, b.w, b.h);
    }
    const on = state.hovered || state.cursor;
    if (on && columns) {
      const b = box(on);
      context.strokeStyle = look.ink;
      context.lineWidth = 2;
      context.strokeRect(b.x - 1, b.y - 1, b.w + 2, b.h + 2);
    }
  }

  function drawLegend() {
    const look = theme(), steps = 8;
    const swatches = [];
    for (let i = 0; grid.most && i < steps; i++) {
      const swatch = document.createElement("i");
      swatch.style.background = color(grid.most ** (i / (steps - 1)), look);
      swatches.push(swatch);
    }
    byId("legend").replaceChildren(...(grid.most ? ["1", ...swatches, String(grid.most) + " " + data.noun + " in a cell"] : ["nothing to draw"]));
  }

  // sums returns the chosen series' counts in some cells, those with the most first.
  function sums(has) {
    const part = Number(byId("part").value);
    const all = [];
    for (const series of chosen()) {
      const list = series.cells[part];
      let n = 0;
      for (let i = 0; i < list.length; i += 3) if (has(list[i], rowOf(list[i + 1]))) n += list[i + 2];
      if (n) all.push([series.name, n]);
    }
    return all.sort((a, b) => b[1] - a[1]);
  }

  function showDetails() {
    const on = state.hovered || state.cursor;
    const heading = document.createElement("h2"), table = document.createElement("table"), keys = document.createElement("p");
    const row = (label, value) => {
      const tr = table.insertRow(), th = document.createElement("th");
      th.textContent = label;
      tr.append(th);
      if (value === undefined) {
        tr.className = "head";
        th.colSpan = 2;
      } else tr.insertCell().textContent = value;
    };
    keys.textContent = hints;
    const share = (n, whole) => n + " · " + (whole ? (100 * n) / whole : 0).toFixed(2) + "%";
    if (!on || !columns) {
      heading.textContent = grid.total + " " + data.noun;
      for (const [name, n] of sums(() => true).slice(0, shownSeries)) row(name, share(n, grid.total));
    } else {
      const n = count(on.column, on.row);
      const inColumn = sums((column) => column === on.column).reduce((sum, [, k]) => sum + k, 0);
      heading.textContent = n + " " + data.noun;
      row("latency", time(low(on.row * step())) + " – " + time(low((on.row + 1) * step())));
      row("from", clock(data.times[on.column]));
      row("to", clock(data.times[on.column + 1]));
      row("of this time", share(n, inColumn));
      row("of all", share(n, grid.total));
      const within = sums((column, at) => column === on.column && at === on.row);
      if (within.length > 0) row("Work");
      for (const [name, k] of within.slice(0, shownSeries)) row(name, String(k));
      if (within.length > shownSeries) row("other work", String(within.slice(shownSeries).reduce((sum, [, k]) => sum + k, 0)));
    }
    byId("details").replaceChildren(heading, table, keys);
  }

  function refresh() {
    draw();
    showDetails();
  }

  function resize() {
    const ratio = window.devicePixelRatio || 1;
    width = stage.clientWidth;
    height = Math.max(stage.clientHeight, 120);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
  }

  function show() {
    state.hovered = null;
    build();
    resize();
    drawLegend();
    refresh();
  }

  // cellAt returns the cell under the mouse; a filled one that is drawn there
  // counts before the one whose place it is.
  function cellAt(e) {
    const r = canvas.getBoundingClientRect(), at = { x: e.clientX - r.left, y: e.clientY - r.top };
    if (!columns || at.x < margin.left || at.x >= width - margin.right || at.y < margin.top || at.y >= height - margin.bottom) return null;
    const ms = ((at.x - margin.left) / plotWidth()) * duration();
    let column = 0;
    while (column + 1 < columns && data.times[column + 1] <= ms) column++;
    const row = grid.top - Math.floor(((at.y - margin.top) / plotHeight()) * grid.rows);
    if (count(column, row)) return { column, row };
    for (const near of [{ column: column - 1, row }, { column, row: row - 1 }, { column: column + 1, row }]) {
      if (near.column < 0 || near.column >= columns || !count(near.column, near.row)) continue;
      const b = box(near);
      if (at.x >= b.x && at.x < b.x + b.w && at.y >= b.y && at.y < b.y + b.h) return near;
    }
    return { column, row };
  }

  // start is the cell with the most values.
  function start() {
    let best = { column: 0, row: grid.bottom, n: 0 };
    for (const [key, n] of grid.cells) if (n > best.n) best = { column: key % columns, row: Math.floor(key / columns), n };
    return { column: best.column, row: best.row };
  }

  // move moves the cursor; far, to the next filled cell in that direction.
  function move(right, up, far) {
    if (!columns) return;
    if (!state.cursor) {
      state.cursor = start();
      return;
    }
    let { column, row } = state.cursor;
    do {
      column += right;
      row += up;
    } while (far && inside(column, row) && !count(column, row));
    if (inside(column, row)) state.cursor = { column, row };
  }

  const inside = (column, row) => column >= 0 && column < columns && row >= grid.bottom && row <= grid.top;

  function next(id) {
    const select = byId(id);
    select.selectedIndex = (select.selectedIndex + 1) % select.options.length;
    show();
  }

  const keys = {
    ArrowLeft: (e) => move(-1, 0, e.shiftKey), ArrowRight: (e) => move(1, 0, e.shiftKey),
    ArrowUp: (e) => move(0, 1, e.shiftKey), ArrowDown: (e) => move(0, -1, e.shiftKey),
    Home: () => { if (columns) state.cursor = { ...(state.cursor || start()), column: 0 }; },
    End: () => { if (columns) state.cursor = { ...(state.cursor || start()), column: columns - 1 }; },
    Escape: () => { state.cursor = null; },
  };

  stage.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.altKey || e.metaKey || !keys[e.key]) return;
    e.preventDefault();
    state.hovered = null;
    keys[e.key](e);
    refresh();
  });
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.altKey || e.metaKey || e.target.tagName === "SELECT") return;
    if (e.key === "s") next("series");
    else if (e.key === "p") next("part");
  });
  canvas.addEventListener("mousemove", (e) => { state.hovered = cellAt(e); refresh(); });
  canvas.addEventListener("mouseleave", () => { state.hovered = null; refresh(); });
  canvas.addEventListener("click", (e) => { state.cursor = cellAt(e); stage.focus(); refresh(); });
  for (const id of ["series", "part"]) byId(id).addEventListener("change", show);
  byId("rows").addEventListener("change", () => { state.cursor = null; show(); });
  window.addEventListener("resize", () => { resize(); draw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { drawLegend(); draw(); });

  const series = byId("series");
  series.add(new Option("All – " + data.series.reduce((sum, s) => sum + s.count, 0), "all"));
  data.series.forEach((s, i) => series.add(new Option(s.name + " – " + s.count, String(i))));
  data.parts.forEach((name, i) => byId("part").add(new Option(name, String(i))));
  byId("part").parentElement.hidden = data.parts.length < 2;
  show();
  stage.focus();
})();
