// The boxes of the SVG as the surface of a flame graph.
(function () {
  const svg = document.documentElement;
  const layer = byId("frames");
  const margin = Number(layer.dataset.margin);
  const rowHeight = Number(layer.dataset.row);
  const charWidth = Number(layer.dataset.char);
  const pad = Number(layer.dataset.pad);
  const hint = byId("details").textContent;
  let width = Number(svg.getAttribute("width"));

  // The boxes are in preorder, so that path holds the callers of the next one.
  const path = [];
  const nodes = Array.from(layer.children, (g) => {
    const rect = g.querySelector("rect"), details = g.querySelector("title").textContent;
    const y = Number(rect.getAttribute("y"));
    const level = path.length > 0 ? (path[0].y - y) / rowHeight : 0;
    const node = {
      f: { name: g.dataset.name, texts: [details.slice(0, details.lastIndexOf(": ")), g.dataset.name] },
      parent: level > 0 ? path[level - 1] : null, kids: [], level,
      x: Number(g.dataset.x), total: Number(g.dataset.w),
      g, rect, text: g.querySelector("text"), y, details,
    };
    if (node.parent) node.parent.kids.push(node);
    path[level] = node;
    return node;
  });

  function draw() {
    const scale = (width - 2 * margin) / Math.max(graph.zoomed.total, 1);
    layer.classList.toggle("searched", graph.searched);
    for (const node of nodes) {
      const span = graph.span(node);
      node.g.toggleAttribute("hidden", !span);
      if (!span) continue;
      const x = margin + span.start * scale, w = span.width * scale;
      node.g.classList.toggle("caller", graph.calls(node));
      node.g.classList.toggle("hit", node.hit);
      node.rect.setAttribute("x", x.toFixed(1));
      node.rect.setAttribute("width", Math.max(w - 0.5, 0.1).toFixed(1));
      node.text.setAttribute("x", (x + pad).toFixed(1));
      node.text.textContent = fit(node.f.name, Math.floor((w - 2 * pad) / charWidth));
    }
    byId("matched").setAttribute("x", graph.zoomed === graph.root ? -320 : -420);
    point();
  }

  let selected = null;

  function point() {
    if (selected) selected.g.classList.remove("selected");
    selected = graph.selected === graph.root ? null : graph.selected;
    if (selected) selected.g.classList.add("selected");
  }

  const alone = window.top === window && svg.localName === "svg"; // not part of a page

  const graph = flameGraph({
    draw, point, keys: {}, inverted: () => false,
    details(node) { byId("details").textContent = node === graph.root && !graph.hovered ? hint : node.details; },
    reveal(node) { if (alone) node.g.scrollIntoView({ block: "nearest" }); },
    focus() { byId("term").blur(); },
  });

  function resize() {
    if (alone) {
      width = Math.max(760, window.innerWidth - 1);
      svg.setAttribute("width", width);
      svg.setAttribute("viewBox", "0 0 " + width + " " + svg.getAttribute("height"));
      byId("controls").setAttribute("transform", "translate(" + (width - margin) + ")");
    }
    draw();
  }

  for (const node of nodes) {
    node.g.addEventListener("click", () => graph.zoom(node));
    node.g.addEventListener("mouseenter", () => graph.hover(node));
    node.g.addEventListener("mouseleave", () => graph.hover(null));
  }
  byId("search").addEventListener("click", () => graph.search(byId("term").value));
  window.addEventListener("resize", resize);
  graph.load(nodes[0]);
  resize();
  if (alone) graph.root.g.scrollIntoView({ block: "center" });
})();
