"use strict";
(function () {
  const svg = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const layer = byId("frames");
  const margin = Number(layer.dataset.margin);
  const charWidth = Number(layer.dataset.char);
  const pad = Number(layer.dataset.pad);
  const hint = byId("details").textContent;

  // Widths and positions are values; the first frame is the root.
  const frames = Array.from(layer.children, (g) => ({
    g, rect: g.querySelector("rect"), text: g.querySelector("text"),
    x: Number(g.dataset.x), w: Number(g.dataset.w), name: g.dataset.name,
    details: g.querySelector("title").textContent,
    y: Number(g.querySelector("rect").getAttribute("y")), hit: false,
  }));
  const root = frames[0];
  let zoomed = root;
  let width = Number(svg.getAttribute("width"));

  function fit(name, room) {
    let used = 0, end = 0;
    for (const c of name) {
      used += c.codePointAt(0) >= 0x1100 ? 2 : 1;
      if (used > room) return room < 3 ? "" : name.slice(0, end) + "…";
      if (used < room) end += c.length;
    }
    return name;
  }

  // draw lays out what shares a stack with the zoomed frame; the frames below
  // that one, towards the root, fill the width.
  function draw() {
    const scale = (width - 2 * margin) / Math.max(zoomed.w, 1);
    for (const f of frames) {
      const from = Math.max(f.x, zoomed.x), to = Math.min(f.x + f.w, zoomed.x + zoomed.w);
      const below = f.y > zoomed.y && f.x <= zoomed.x && f.x + f.w >= zoomed.x + zoomed.w;
      const shown = f === zoomed || below || (f.y < zoomed.y && from < to);
      f.g.classList.toggle("hidden", !shown);
      f.g.classList.toggle("below", below);
      if (!shown) continue;
      const x = margin + (from - zoomed.x) * scale, w = (to - from) * scale;
      f.rect.setAttribute("x", x.toFixed(1));
      f.rect.setAttribute("width", Math.max(w - 0.5, 0.1).toFixed(1));
      f.text.setAttribute("x", (x + pad).toFixed(1));
      f.text.textContent = fit(f.name, Math.floor((w - 2 * pad) / charWidth));
    }
    byId("reset").classList.toggle("hidden", zoomed === root);
  }

  function zoom(f) {
    zoomed = f;
    draw();
    tellMatched();
  }

  function pattern(term) {
    try {
      return new RegExp(term, "i");
    } catch {
      return new RegExp(term.replace(/[^\w\s]/g, "\\$&"), "i");
    }
  }

  function search(term) {
    const re = term && pattern(term);
    layer.classList.toggle("searched", Boolean(re));
    for (const f of frames) {
      f.hit = f !== root && Boolean(re) && re.test(f.details.slice(0, f.details.lastIndexOf(": ")));
      f.g.classList.toggle("hit", f.hit);
    }
    tellMatched();
  }

  // tellMatched counts each stack of the zoomed frame once, however many
  // frames of its stack match. Frames come in preorder, so that the lowest of
  // some nested ones comes first.
  function tellMatched() {
    let matched = 0, counted = 0, any = false;
    const end = zoomed.x + zoomed.w;
    for (const f of frames) {
      if (!f.hit) continue;
      any = true;
      const from = Math.max(f.x, zoomed.x, counted), to = Math.min(f.x + f.w, end);
      if (from >= to) continue;
      matched += to - from;
      counted = to;
    }
    const share = zoomed.w ? (100 * matched) / zoomed.w : 0;
    const searched = byId("term").value !== "";
    byId("matched").textContent = searched ? (any ? share.toFixed(1) + "% matched" : "no match") : "";
    byId("matched").setAttribute("x", zoomed === root ? -320 : -420);
  }

  function resize() {
    if (window.top !== window || svg.localName !== "svg") return;
    width = Math.max(760, window.innerWidth - 1);
    svg.setAttribute("width", width);
    svg.setAttribute("viewBox", "0 0 " + width + " " + svg.getAttribute("height"));
    byId("controls").setAttribute("transform", "translate(" + (width - margin) + ")");
    draw();
  }

  for (const f of frames) {
    f.g.addEventListener("click", () => zoom(f));
    f.g.addEventListener("mouseenter", () => { byId("details").textContent = f.details; });
    f.g.addEventListener("mouseleave", () => { byId("details").textContent = hint; });
  }
  byId("reset").addEventListener("click", () => zoom(root));
  byId("search").addEventListener("click", () => search(byId("term").value));
  byId("term").addEventListener("input", () => search(byId("term").value));
  window.addEventListener("resize", resize);
  window.addEventListener("keydown", (e) => {
    if ((e.ctrlKey || e.metaKey) && e.key === "f" || e.key === "/" && e.target !== byId("term")) {
      e.preventDefault();
      byId("term").focus();
      byId("term").select();
    } else if (e.key === "Escape" && byId("term").value) {
      byId("term").value = "";
      byId("term").blur();
      search("");
    } else if (e.key === "Escape") {
      zoom(root);
    }
  });
  resize();
  tellMatched();
  if (window.top === window) root.g.scrollIntoView({ block: "center" });
})();
