"use strict";

const byId = (id) => document.getElementById(id);

// fit cuts a label to a number of characters; East Asian ones and emoji count
// twice. Fewer than three are not worth showing.
function fit(label, room) {
  let used = 0, end = 0; // end: of what fits with an ellipsis after it
  for (const c of label) {
    used += c.codePointAt(0) >= 0x1100 ? 2 : 1;
    if (used > room) return room < 3 ? "" : label.slice(0, end) + "…";
    if (used < room) end += c.length;
  }
  return label;
}

// flameGraph is the interactive flame graph of the SVG and of the HTML page:
// zoom, search, selection, keyboard. It draws nothing itself: a surface does.
//
// A node is {f, parent, kids, x, total, level}: where it starts, from the left
// edge of the root, and its total are values of the profile, its level counts
// from the root. Its function f is {name, texts}: a search looks for the texts.
//
// A surface has:
//   draw()         draw every node, by span
//   point()        show which nodes are hovered and selected
//   details(node)  describe a node
//   reveal(node)   scroll to a node
//   focus()        take the keyboard from the search field
//   inverted()     whether the root is at the top
//   keys           what other keys do, by their name
function flameGraph(surface) {
  const graph = { root: null, rows: [], zoomed: null, selected: null, hovered: null, searched: false };
  let pattern = null, found = false;

  // load shows a tree instead of the one before. rows are each level's nodes
  // from left to right.
  graph.load = (root) => {
    Object.assign(graph, { root, rows: [], zoomed: root, selected: root, hovered: null });
    const open = [root];
    while (open.length > 0) {
      const node = open.pop();
      (graph.rows[node.level] = graph.rows[node.level] || []).push(node);
      for (let i = node.kids.length - 1; i >= 0; i--) open.push(node.kids[i]);
    }
    markHits();
  };

  // calls reports whether node is a caller of the zoomed one, at any distance.
  graph.calls = (node) => {
    const z = graph.zoomed;
    return node.level < z.level && node.x <= z.x && node.x + node.total >= z.x + z.total;
  };

  // span returns where node starts and how wide it is, as values from the left
  // edge of the zoomed node, and null if it is not shown: only what shares a
  // stack with the zoomed node is. Its callers fill the width.
  graph.span = (node) => {
    const z = graph.zoomed;
    const from = Math.max(node.x, z.x), to = Math.min(node.x + node.total, z.x + z.total);
    if (node !== z && !graph.calls(node) && (node.level <= z.level || from >= to)) return null;
    return { start: from - z.x, width: Math.max(to - from, node === graph.root ? 1 : 0) };
  };

  graph.refresh = () => {
    byId("reset").toggleAttribute("hidden", graph.zoomed === graph.root);
    showMatched();
    surface.details(graph.hovered || graph.selected);
    surface.draw();
  };

  graph.zoom = (node) => {
    graph.zoomed = graph.selected = node;
    graph.refresh();
  };

  graph.hover = (node) => {
    if (node === graph.hovered) return;
    graph.hovered = node;
    surface.details(node || graph.selected);
    surface.point();
  };

  // search marks what matches a regular expression, or else that text.
  graph.search = (term) => {
    try {
      pattern = term ? new RegExp(term, "i") : null;
    } catch {
      pattern = new RegExp(term.replace(/[^\w\s]/g, "\\$&"), "i");
    }
    markHits();
    graph.refresh();
  };

  function markHits() {
    const known = new Map();
    graph.searched = pattern !== null;
    found = false;
    for (const row of graph.rows) {
      for (const node of row) {
        if (!known.has(node.f)) known.set(node.f, graph.searched && node !== graph.root && node.f.texts.some((t) => pattern.test(t)));
        node.hit = known.get(node.f);
        found = found || node.hit;
      }
    }
  }

  // matched is the value of the zoomed node's stacks that have a hit, each once.
  function matched() {
    for (let on = graph.zoomed; on; on = on.parent) if (on.hit) return graph.zoomed.total;
    let sum = 0;
    const open = [...graph.zoomed.kids];
    while (open.length > 0) {
      const node = open.pop();
      if (node.hit) sum += node.total;
      else open.push(...node.kids);
    }
    return sum;
  }

  function showMatched() {
    const share = graph.zoomed.total ? (100 * matched()) / graph.zoomed.total : 0;
    byId("matched").textContent = !graph.searched ? "" : found ? share.toFixed(1) + "% matched" : "no match";
  }

  // move selects a neighbour of the selected node: its caller or widest callee,
  // or the next one in its row.
  function move(key) {
    const at = graph.selected, row = graph.rows[at.level];
    let to = at.parent;
    if (key === "ArrowLeft" || key === "ArrowRight") to = row[row.indexOf(at) + (key === "ArrowLeft" ? -1 : 1)];
    else if ((key === "ArrowUp") !== surface.inverted()) to = at.kids.reduce((best, kid) => (best && best.total >= kid.total ? best : kid), null);
    if (!to || !graph.span(to)) return;
    graph.selected = to;
    graph.hovered = null;
    surface.reveal(to);
    surface.details(to);
    surface.point();
  }

  // escape ends the search, and without one the zoom.
  function escape() {
    if (byId("term").value) {
      byId("term").value = "";
      graph.search("");
    } else {
      graph.zoom(graph.root);
    }
    surface.focus();
  }

  window.addEventListener("keydown", (e) => {
    const typing = e.target === byId("term");
    if (((e.ctrlKey || e.metaKey) && e.key === "f") || (e.key === "/" && !typing)) {
      byId("term").focus();
      byId("term").select();
    } else if (e.key === "Escape") escape();
    else if (typing || e.target.localName === "select" || e.ctrlKey || e.metaKey || e.altKey) return;
    else if (e.key === "Enter" && e.target.localName !== "button") graph.zoom(graph.selected);
    else if (surface.keys[e.key]) surface.keys[e.key]();
    else if (e.key.startsWith("Arrow")) move(e.key);
    else return;
    e.preventDefault();
  });
  byId("reset").addEventListener("click", () => graph.zoom(graph.root));
  byId("term").addEventListener("input", () => graph.search(byId("term").value));
  return graph;
}
