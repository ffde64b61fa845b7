// Hands: pointer, wheel, keys, search, branches, legend.
const search = document.getElementById("search"), found = document.getElementById("found");
const live = document.getElementById("live"), hint = document.getElementById("hint");

function select(node, isRevealed = false) {
  if (node && node.kind === "run") return open(node);
  if (node) uncover(node);
  selected = node;
  showPanel();
  if (node) {
    live.textContent = `${titleOf(node)}, ${node.id.slice(0, 7)}, ${lanes[node.lane].name}`;
    if (isRevealed || !panel.hidden) reveal(node);
  }
  repaint();
}

function open(run) {
  const x = screenX(run.x);
  openRun(run);
  view.x += (screenX(run.nodes[0].x) - x) / columnWidth();
  hovered = null;
  live.textContent = `${run.message} of ${lanes[run.lane].name} are shown`;
  clamp();
  repaint();
}

// --- pointer -------------------------------------------------------------------------------

const pointers = new Map();
let moved = 0, spread0 = 0;

function place(event) {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, place(event));
  moved = pointers.size > 1 ? 99 : 0;
  spread0 = 0;
  canvas.classList.add("moving");
  hint.classList.add("gone");
});
canvas.addEventListener("pointermove", (event) => {
  const [x, y] = place(event), before = pointers.get(event.pointerId);
  if (!before) return hover(x, y);
  pointers.set(event.pointerId, [x, y]);
  if (pointers.size === 2) return pinch();
  moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
  if (moved > 3) panBy(x - before[0], y - before[1]);
});
for (const name of ["pointerup", "pointercancel"])
  canvas.addEventListener(name, (event) => {
    const wasClick = pointers.size === 1 && moved <= 3 && name === "pointerup";
    pointers.delete(event.pointerId);
    spread0 = 0;
    if (!pointers.size) canvas.classList.remove("moving");
    if (wasClick) select(nodeAt(...place(event)));
  });
canvas.addEventListener("pointerleave", () => hover(-1, -1));

function hover(x, y) {
  const node = nodeAt(x, y);
  if (node === hovered) return;
  hovered = node;
  canvas.classList.toggle("over", Boolean(node));
  repaint();
}

function pinch() {
  const [[ax, ay], [bx, by]] = [...pointers.values()];
  const apart = Math.hypot(ax - bx, ay - by);
  if (spread0) zoomAt(apart / spread0, (ax + bx) / 2, (ay + by) / 2);
  spread0 = apart;
}

canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  hint.classList.add("gone");
  const unit = event.deltaMode === 1 ? 16 : 1;
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
    return panBy(-(event.deltaX || event.deltaY) * unit, 0);
  zoomAt(Math.exp(-Math.max(-240, Math.min(240, event.deltaY * unit)) * 0.0022), ...place(event));
}, { passive: false });

// --- keys ----------------------------------------------------------------------------------

function step(direction) {
  if (!shown.nodes.length) return;
  if (!selected || !selected.shown) return select(newest(), true);
  const line = lanes[selected.lane].nodes;
  const next = line[line.indexOf(selected) + direction];
  if (next) return select(next, true);
  const beyond = (direction < 0 ? selected.incoming.map((link) => link.source) : selected.outgoing.map((link) => link.target)).find((node) => node.shown);
  if (beyond) select(beyond, true);
}

const newest = () => nodes.findLast((node) => node.shown);

function hop(direction) {
  if (!selected || !selected.shown) return step(0);
  for (let row = selected.y + direction; shown.lanes[row]; row += direction) {
    const near = shown.lanes[row].nodes.reduce((a, b) => (a && Math.abs(a.x - selected.x) <= Math.abs(b.x - selected.x) ? a : b), null);
    if (near) return select(near, true);
  }
}

const KEYS = {
  ArrowLeft: () => step(-1), ArrowRight: () => step(1), ArrowUp: () => hop(-1), ArrowDown: () => hop(1),
  "+": () => zoomAt(1.3), "=": () => zoomAt(1.3), "-": () => zoomAt(1 / 1.3), "0": resetView, f: fit,
  Home: () => shown.nodes.length && select(nodes.find((node) => node.shown), true),
  End: () => shown.nodes.length && select(newest(), true),
  Enter: () => selected && panel.focus(),
};
const PANS = { ArrowLeft: [80, 0], ArrowRight: [-80, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };

canvas.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const pan = event.shiftKey && PANS[event.key];
  const act = pan ? () => panBy(...pan) : KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  hint.classList.add("gone");
  act();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target !== search) { event.preventDefault(); search.focus(); search.select(); }
  if (event.key !== "Escape") return;
  for (const drop of document.querySelectorAll("details.drop[open]")) drop.open = false;
  if (event.target === search || !found.hidden) { search.value = ""; look(); } else select(null);
  canvas.focus();
});
document.addEventListener("pointerdown", (event) => {
  for (const drop of document.querySelectorAll("details.drop[open]")) if (!drop.contains(event.target)) drop.open = false;
  if (!event.target.closest(".search")) closeFound();
});

// --- search --------------------------------------------------------------------------------

let texts = null, hits = [], chosen = -1;

function look() {
  const wanted = search.value.trim().toLowerCase();
  texts ||= nodes.map((n) => n.kind === "start" ? "" : [n.id, n.message, n.operation, n.author, ...n.tags].join("\n").toLowerCase());
  hits = wanted ? nodes.filter((node) => texts[node.at].includes(wanted)).reverse() : [];
  matches = wanted ? new Set(hits.map((node) => node.at)) : null;
  chosen = -1;
  found.hidden = !wanted;
  search.setAttribute("aria-expanded", String(!found.hidden));
  const items = hits.slice(0, 50).map((node, at) => el("button", { class: "found", type: "button", role: "option", "aria-selected": "false", id: "hit" + at, onclick: () => take(at) },
    said(titleOf(node), "b"), el("small", { dir: "auto" }, `${node.id.slice(0, 7)} · ${lanes[node.lane].name} · ${node.author}`)));
  const note = el("p", { class: "note" }, hits.length ? `${count(hits.length)} found` : "Nothing found");
  found.replaceChildren(note, ...items);
  live.textContent = wanted ? note.textContent : "";
  repaint();
}

function closeFound() {
  found.hidden = true;
  search.setAttribute("aria-expanded", "false");
}

function take(at) {
  if (!hits[at]) return;
  closeFound();
  select(hits[at], true);
}

search.addEventListener("input", look);
search.addEventListener("focus", () => { if (search.value.trim()) look(); });
search.addEventListener("keydown", (event) => {
  const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Enter") take(Math.max(chosen, 0));
  if (!move || !hits.length) return;
  event.preventDefault();
  const items = found.querySelectorAll(".found");
  if (chosen >= 0) items[chosen].setAttribute("aria-selected", "false");
  chosen = Math.min(items.length - 1, Math.max(0, chosen + move));
  items[chosen].setAttribute("aria-selected", "true");
  items[chosen].scrollIntoView({ block: "nearest" });
  search.setAttribute("aria-activedescendant", "hit" + chosen);
});

// --- branches and legend -------------------------------------------------------------------

function showLanes() {
  arrange();
  document.getElementById("empty").hidden = shown.nodes.length > 0;
  if (selected && !selected.shown) select(null);
  hovered = null;
  if (search.value.trim()) { look(); closeFound(); }
  clamp();
  repaint();
}

const list = document.getElementById("lanes");

function fillBranches() {
  const isShown = droppedLanes.length && droppedLanes.every((lane) => lane.shown);
  fold.textContent = `${isShown ? "Fold" : "Show"} ${count(droppedLanes.length)} dropped`;
  fold.setAttribute("aria-pressed", String(Boolean(isShown)));
  list.replaceChildren(...lanes.map((lane) => {
    const box = el("input", { type: "checkbox", "data-lane": lane.at, onchange: (event) => { lane.shown = event.target.checked; showLanes(); } });
    box.checked = lane.shown;
    return el("li", null, el("label", null, box, el("span", { class: "swatch", style: { background: laneColor(lane.at) } }),
      el("span", { class: "name", dir: "auto" }, lane.name + (lane.dropped && data.lanes[lane.at][0] ? " (dropped)" : ""))));
  }));
}

for (const [name, isShown] of [["all", true], ["none", false]])
  document.getElementById(name).addEventListener("click", () => {
    for (const lane of lanes) lane.shown = isShown && !(lane.dropped && hasLive);
    fillBranches();
    showLanes();
  });

// Dropped branches come and go together.
const droppedLanes = lanes.filter((lane) => lane.dropped && hasLive), fold = document.getElementById("dropped");
fold.hidden = !droppedLanes.length;
fold.addEventListener("click", () => {
  const isShown = !droppedLanes.every((lane) => lane.shown);
  for (const lane of droppedLanes) lane.shown = isShown;
  fillBranches();
  showLanes();
});

function svg(tag, given, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(given)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function fillLegend() {
  const c = "var(--soft)", full = { fill: c, stroke: c }, hollow = { fill: "none", stroke: c, "stroke-width": 2 };
  const line = (given) => svg("line", { x1: 0, x2: 36, y1: 10, y2: 10, stroke: c, "stroke-width": 2, ...given });
  const box = (state) => svg("rect", { x: 4, y: 4, width: 28, height: 12, rx: 3, fill: `var(--${state})`, "fill-opacity": 0.25, stroke: `var(--${state})` });
  const rows = [
    [svg("circle", { cx: 18, cy: 10, r: 6, ...full }), "transaction"],
    [svg("path", { d: "M11 10l7-7 7 7-7 7z", ...full }), "merge"],
    [svg("rect", { x: 12, y: 4, width: 12, height: 12, ...full }), "schema change"],
    [svg("path", { d: "M11 16l7-13 7 13z", ...full }), "derived object"],
    [svg("circle", { cx: 18, cy: 10, r: 6, ...hollow }), "propagated"],
    [svg("circle", { cx: 18, cy: 10, r: 4, ...hollow }), "start of a branch"],
    [svg("circle", { cx: 18, cy: 10, r: 9, fill: c, "fill-opacity": 0.3 }), "head of a branch"],
    [svg("rect", { x: 3, y: 3, width: 30, height: 14, rx: 7, fill: c, "fill-opacity": 0.2, stroke: c }), "a run of snapshots; click to open it"],
    [line({}), "follows"],
    [svg("path", { d: "M0 7h26v-4l10 7-10 7v-4H0z", fill: "none", stroke: c, "stroke-width": 1.4 }), "schema change, clone, derivation; shaded where a sync began"],
    [line({ "stroke-dasharray": "5 4" }), "propagation"],
    [box("active"), "sync active"], [box("held"), "sync held"], [box("detached"), "sync detached"], [box("error"), "sync in error"],
  ];
  document.getElementById("legend-body").replaceChildren(...rows.map(([mark, text]) =>
    el("div", { class: "key" }, svg("svg", { width: 36, height: 20, "aria-hidden": "true" }, mark), text)));
}

document.getElementById("in").addEventListener("click", () => zoomAt(1.3));
document.getElementById("out").addEventListener("click", () => zoomAt(1 / 1.3));
document.getElementById("fit").addEventListener("click", fit);
document.getElementById("reset").addEventListener("click", resetView);
new ResizeObserver(() => { resize(); clamp(); paint(); }).observe(canvas);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColors(); fillBranches(); fillPanel(); repaint(); });

readColors();
resize();
arrange();
fillBranches();
fillLegend();
document.getElementById("empty").hidden = shown.nodes.length > 0;
resetView();
paint();
setTimeout(() => hint.classList.add("gone"), 6000);
window.snapshotGraph = { view, stats, shown, lanes, nodes, folding, fit, screenX, screenY, select, panBy, zoomAt, get selected() { return selected; } };
