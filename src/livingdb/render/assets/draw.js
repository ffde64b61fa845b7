// Draws what is in view, and only that: links, nodes, words; then what stays in place over it.
const brush = canvas.getContext("2d");
const colors = {};
const stats = { frames: 0, nodes: 0, links: 0, milliseconds: 0 };
const FONT = 'ui-sans-serif,system-ui,-apple-system,"Segoe UI","Noto Sans",sans-serif';

function readColors() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["paper", "ink", "soft", "line", "band", "panel", "active", "held", "detached", "error"])
    colors[name] = style.getPropertyValue("--" + name).trim();
  colors.lanes = [];
  for (let at = 0; ; at++) {
    const color = style.getPropertyValue("--lane" + at).trim();
    if (!color) break;
    colors.lanes.push(color);
  }
}

const laneColor = (lane) => colors.lanes[lane % colors.lanes.length];
const isolated = (text) => "\u2068" + text + "\u2069";

function draw() {
  const began = performance.now(), ratio = window.devicePixelRatio || 1;
  brush.setTransform(ratio, 0, 0, ratio, 0, 0);
  brush.fillStyle = colors.paper;
  brush.fillRect(0, 0, view.width, view.height);
  stats.nodes = stats.links = 0;
  if (shown.lanes.length) {
    const first = view.x - 1.5, last = view.x + (view.width - labelWidth()) / columnWidth() + 0.5;
    drawLanes();
    drawTimes(first, last);
    drawLinks(first, last);
    drawNodes(first, last);
    drawSyncs();
    drawNames();
    drawTimeNames();
  }
  stats.frames += 1;
  stats.milliseconds = performance.now() - began;
}

function rowsInView() {
  const first = Math.max(0, Math.floor(view.y - 1));
  return [first, Math.min(shown.lanes.length, Math.ceil(view.y + (view.height - TOP) / laneHeight() + 1))];
}

function drawLanes() {
  const [first, last] = rowsInView(), height = laneHeight();
  for (let row = first; row < last; row++) {
    const y = screenY(row);
    if (row % 2 === 0) {
      brush.fillStyle = colors.band;
      brush.fillRect(0, y - height / 2, view.width, height);
    }
    brush.fillStyle = colors.line;
    brush.fillRect(labelWidth(), y - 0.5, screenX(shown.columns - 0.4) - labelWidth() + gutterWidth() - 215, 1);
  }
}

// The first node of what a place in the list of those in view can be.
function firstNode(column) {
  let low = 0, high = shown.nodes.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (shown.nodes[middle].x < column) low = middle + 1; else high = middle;
  }
  return low;
}

let ticks = [];
const UNITS = [1e3, 6e4, 36e5, 864e5, 864e5 * 30];

function drawTimes(first, last) {
  const from = firstNode(first), end = firstNode(last + 1);
  ticks = [];
  if (from >= end) return;
  const span = shown.nodes[end - 1].time - shown.nodes[from].time;
  const unit = UNITS.find((size) => span / size < 400) || UNITS[4];
  let free = -Infinity, latest = null;
  for (let at = from; at < end; at++) {
    const node = shown.nodes[at], x = screenX(node.x), mark = Math.floor(node.time / unit);
    if (mark === latest || x < free) continue;
    latest = mark;
    const when = new Date(node.time).toISOString();
    const text = unit >= 864e5 ? when.slice(0, 10) : unit >= 6e4 ? when.slice(5, 16).replace("T", " ") : when.slice(11, 19);
    free = x + 96;
    brush.fillStyle = colors.line;
    brush.fillRect(x - 0.5, TOP - 4, 1, (shown.lanes.length - view.y) * laneHeight() + 4);
    ticks.push([text, x]);
  }
}

function drawTimeNames() {
  brush.fillStyle = colors.paper;
  brush.fillRect(0, 0, view.width, TOP - 4);
  brush.fillStyle = colors.soft;
  brush.font = "11px " + FONT;
  brush.textAlign = "center";
  brush.textBaseline = "middle";
  for (const [text, x] of ticks) if (x > labelWidth() + 30) brush.fillText(text, x, TOP / 2 - 2);
  brush.textAlign = "left";
  brush.fillText("UTC", 12, TOP / 2 - 2);
}

// --- links ---------------------------------------------------------------------------------

let stamp = 0;

function linksInView(first, last) {
  const found = [];
  stamp += 1;
  const take = (link) => {
    if (link.seen === stamp || link.target.x < first || link.source.x > last) return;
    link.seen = stamp;
    found.push(link);
  };
  const end = Math.min(shown.buckets.length - 1, Math.floor(last / BUCKET));
  for (let at = Math.max(0, Math.floor(first / BUCKET)); at <= end; at++)
    for (const link of shown.buckets[at] || []) take(link);
  for (const link of shown.long) take(link);
  return found;
}

function drawLinks(first, last) {
  const plain = new Map(), blocks = [];
  const top = -40, bottom = view.height + 40, all = linksInView(first, last);
  const isHasty = all.length > 1200 && performance.now() < movesUntil;
  for (const link of all) {
    const y1 = screenY(link.source.y), y2 = screenY(link.target.y);
    if (Math.max(y1, y2) < top || Math.min(y1, y2) > bottom) continue;
    const isFar = view.k < 0.2 && link.source.lane !== link.target.lane;
    if (isFar && isHasty) continue;
    stats.links += 1;
    if (BLOCK.has(link.kind) && view.k > 0.18) { blocks.push(link); continue; }
    const isOwn = link.source === selected || link.target === selected;
    const fade = isOwn ? 0 : isFar ? 2000 : matches || (selected && link.isSource) ? 1000 : 0;
    const style = link.target.lane % colors.lanes.length + (link.kind === "propagate" ? 100 : 0) + fade;
    if (!plain.has(style)) plain.set(style, []);
    plain.get(style).push(link);
  }
  for (const [style, group] of plain) {
    brush.strokeStyle = brush.fillStyle = colors.lanes[style % 100];
    brush.globalAlpha = style >= 2000 ? 0.16 : style >= 1000 ? 0.45 : 0.9;
    const isDashed = style % 1000 >= 100;
    brush.lineWidth = style >= 2000 ? 1 : isDashed ? 1.4 : 1.9;
    brush.setLineDash(isDashed && view.k > 0.2 ? [5, 4] : []);
    // A path of very many lines is slower to fill in than many short ones.
    for (let at = 0; at < group.length; at += 40) {
      brush.beginPath();
      for (const link of group.slice(at, at + 40)) trace(link, 5);
      brush.stroke();
    }
    brush.setLineDash([]);
    if (view.k > 0.25) {
      brush.beginPath();
      for (const link of group)
        if (link.way !== "join") arrowhead(screenX(link.target.x) - radius() - 1, screenY(link.target.y), 5, 3.5);
      brush.fill();
    }
  }
  brush.globalAlpha = 1;
  for (const link of blocks) drawBlock(link);
}

function arrowhead(x, y, long, half) {
  brush.moveTo(x, y);
  brush.lineTo(x - long, y - half);
  brush.lineTo(x - long, y + half);
  brush.closePath();
}

// The same ways as in the image: level where it leaves and where it arrives.
function trace(link, head) {
  const r = radius() + 1;
  const x1 = screenX(link.source.x) + r, y1 = screenY(link.source.y);
  const x2 = screenX(link.target.x) - r - head, y2 = screenY(link.target.y);
  brush.moveTo(x1, y1);
  if (link.way === "straight" || view.k < 0.2) { brush.lineTo(x2, y2); return; }
  if (link.way === "over") {
    const bow = y1 - laneHeight() * 0.38, reach = Math.min(24, (x2 - x1) / 2);
    brush.bezierCurveTo(x1 + reach * 0.7, y1, x1 + reach * 0.2, bow, x1 + reach, bow);
    brush.lineTo(x2 - reach, bow);
    brush.bezierCurveTo(x2 - reach * 0.2, bow, x2 - reach * 0.7, y2, x2, y2);
    return;
  }
  const bend = Math.max(columnWidth() - 2 * r - 4, 4);
  const from = link.way === "late" || link.way === "leave" ? Math.max(x2 - bend, x1) : x1;
  const to = link.way === "early" || link.way === "join" ? Math.min(x1 + bend, x2) : x2;
  const middle = (from + to) / 2;
  if (link.way === "leave") brush.moveTo(from, y1); else brush.lineTo(from, y1);
  brush.bezierCurveTo(middle, y1, middle, y2, to, y2);
  if (link.way !== "join") brush.lineTo(x2, y2);
}

function drawBlock(link) {
  const sync = link.sync < 0 ? null : data.syncs[link.sync];
  const color = sync ? colors[sync.state] : laneColor(link.target.lane);
  const wide = Math.max(4, 9 * Math.min(1, Math.sqrt(view.k))), half = wide * 0.9, long = wide * 1.15;
  const stroke = (width, style, alpha) => {
    brush.lineWidth = width;
    brush.strokeStyle = style;
    brush.globalAlpha = alpha;
    brush.beginPath();
    trace(link, long);
    brush.stroke();
  };
  const dim = matches ? 0.45 : 1;
  stroke(wide, color, dim);
  stroke(wide - 2.6, colors.paper, 1);
  if (sync) stroke(wide - 2.6, color, 0.5 * dim);
  brush.globalAlpha = dim;
  brush.fillStyle = color;
  brush.beginPath();
  if (!sync || sync.direction !== "reverse")
    arrowhead(screenX(link.target.x) - radius() - 1, screenY(link.target.y), long + 2, half);
  if (sync && sync.direction !== "forward")
    arrowhead(screenX(link.source.x) + radius() + 1, screenY(link.source.y), -long - 2, half);
  brush.fill();
  brush.globalAlpha = 1;
}

// --- nodes ---------------------------------------------------------------------------------

function shape(node, x, y, r) {
  if (node.kind === "merge") {
    brush.moveTo(x - r, y); brush.lineTo(x, y - r); brush.lineTo(x + r, y); brush.lineTo(x, y + r); brush.closePath();
  } else if (node.kind === "schema_change") {
    brush.rect(x - r + 1, y - r + 1, 2 * r - 2, 2 * r - 2);
  } else if (node.kind === "derive") {
    brush.moveTo(x - r, y + r - 1); brush.lineTo(x, y - r); brush.lineTo(x + r, y + r - 1); brush.closePath();
  } else {
    const size = node.kind === "propagate" ? r - 0.5 : node.kind === "start" ? r - 1.5 : r;
    brush.moveTo(x + size, y);
    brush.arc(x, y, Math.max(size, 0.8), 0, 7);
  }
}

function drawNodes(first, last) {
  const end = firstNode(last + 1), r = radius(), groups = new Map(), labels = [];
  for (let at = firstNode(first); at < end; at++) {
    const node = shown.nodes[at], x = screenX(node.x), y = screenY(node.y);
    if (y < -20 || y > view.height + 20) continue;
    stats.nodes += 1;
    const isHollow = node.kind === "propagate" || node.kind === "start";
    const isDim = matches && !matches.has(node.at);
    const style = node.lane % colors.lanes.length + (isHollow ? 100 : 0) + (isDim ? 1000 : 0);
    if (!groups.has(style)) groups.set(style, []);
    groups.get(style).push([node, x, y]);
    if (node.heads.length || node === selected || node === hovered) ring(node, x, y, r);
    if (node.hidden && view.k > 0.2) older(node, x, y, r);
    labels.push(node);
  }
  for (const [style, group] of groups) {
    brush.globalAlpha = style >= 1000 ? 0.3 : 1;
    brush.fillStyle = style % 1000 >= 100 ? colors.paper : colors.lanes[style % 100];
    brush.strokeStyle = colors.lanes[style % 100];
    brush.lineWidth = r < 4 ? 1.2 : 2;
    for (let at = 0; at < group.length; at += 40) {
      brush.beginPath();
      for (const [node, x, y] of group.slice(at, at + 40)) shape(node, x, y, r);
      brush.fill();
      brush.stroke();
    }
  }
  brush.globalAlpha = 1;
  drawLabels(labels, r);
}

function ring(node, x, y, r) {
  brush.globalAlpha = node === selected ? 0.3 : 0.18;
  brush.fillStyle = laneColor(node.lane);
  brush.beginPath();
  brush.arc(x, y, r + (node === selected ? 9 : 7), 0, 7);
  brush.fill();
  brush.globalAlpha = 1;
  if (node !== selected) return;
  brush.strokeStyle = colors.ink;
  brush.lineWidth = 1.5;
  brush.stroke();
}

function older(node, x, y, r) {
  brush.strokeStyle = laneColor(node.lane);
  brush.lineWidth = 2;
  brush.setLineDash([2, 4]);
  brush.beginPath();
  brush.moveTo(x - r - 20, y);
  brush.lineTo(x - r - 3, y);
  brush.stroke();
  brush.setLineDash([]);
}

const widths = new Map();

function fitted(text, room) {
  const key = text + "\u0000" + Math.round(room);
  let found = widths.get(key);
  if (found === undefined) {
    const letters = Array.from(text.replace(/\s+/g, " ").slice(0, 200));
    let count = letters.length;
    const at = (n) => (n < letters.length ? letters.slice(0, n).join("").trimEnd() + "…" : letters.join(""));
    if (brush.measureText(at(count)).width > room) {
      let low = 0;
      while (low < count - 1) {
        const middle = (low + count) >> 1;
        if (brush.measureText(at(middle)).width > room) count = middle; else low = middle;
      }
      count = low;
    }
    found = count ? at(count) : "";
    if (widths.size > 20000) widths.clear();
    widths.set(key, found);
  }
  return found;
}

function drawLabels(list, r) {
  const room = columnWidth() - 8;
  brush.textAlign = "center";
  brush.textBaseline = "middle";
  brush.lineJoin = "round";
  brush.font = "11px " + FONT;
  const below = Math.min(laneHeight() * 0.36, r + 16);
  for (const node of list) {
    if (matches && !matches.has(node.at)) continue;
    const x = screenX(node.x), y = screenY(node.y);
    if (room >= 46) written(fitted(titleOf(node), room), x, y + below, colors.soft);
    if (node.tags.length && columnWidth() > 24)
      written(fitted("⚑ " + node.tags.join(", "), Math.max(room, 60)), x, y - r - 11, laneColor(node.lane));
  }
  for (const node of new Set([hovered, selected])) if (node && node.shown) plate(node, below);
}

// The name of a node one points at, on a plate over all others.
function plate(node, below) {
  brush.font = "600 11px " + FONT;
  const text = fitted(titleOf(node), 300), wide = brush.measureText(isolated(text)).width + 14;
  const x = screenX(node.x), y = screenY(node.y) + Math.max(below, radius() + 17);
  brush.fillStyle = colors.panel;
  brush.strokeStyle = colors.line;
  brush.lineWidth = 1;
  brush.beginPath();
  brush.roundRect(x - wide / 2, y - 10, wide, 20, 6);
  brush.fill();
  brush.stroke();
  brush.fillStyle = colors.ink;
  brush.fillText(isolated(text), x, y);
}

function written(text, x, y, color) {
  brush.strokeStyle = colors.paper;
  brush.lineWidth = 3;
  brush.globalAlpha = 0.85;
  brush.strokeText(isolated(text), x, y);
  brush.globalAlpha = 1;
  brush.fillStyle = color;
  brush.fillText(isolated(text), x, y);
}

// --- syncs and names -----------------------------------------------------------------------

function drawSyncs() {
  const syncs = data.syncs.filter(isSyncShown);
  if (!syncs.length) return;
  const left = screenX(shown.columns - 0.5) + 20;
  if (left > view.width) return;
  const tracks = 1 + Math.max(...syncs.map((sync) => sync.track));
  const below = new Map();
  brush.textAlign = "left";
  brush.textBaseline = "middle";
  for (const sync of syncs) {
    const x = left + 22 * (sync.track + 0.5), target = screenY(lanes[sync.target].row);
    for (const lane of sync.sources)
      if (lanes[lane].shown && !isInside(sync, syncs)) drawBand(sync, x, screenY(lanes[lane].row), target);
      else if (lanes[lane].shown) drawTap(sync, x, target);
    const count = below.get(sync.target) || 0;
    below.set(sync.target, count + 1);
    if (count > 1 || laneHeight() < 24) continue;
    const at = left + 22 * tracks + 8, y = target + 26 * count - 7;
    const names = sync.sources.map((lane) => lanes[lane].name).join(", ");
    brush.font = "600 11px " + FONT;
    written(fitted(`${names} ${sync.arrow} ${lanes[sync.target].name}`, 320), at, y, colors.ink);
    brush.font = "11px " + FONT;
    written(fitted(syncText(sync), 420), at, y + 13, colors[sync.state]);
  }
}

// Whether another one on its track goes further, the same way: they share a trunk.
function isInside(sync, syncs) {
  const from = lanes[sync.sources[0]].row, to = lanes[sync.target].row;
  return syncs.some((other) => other !== sync && other.track === sync.track && other.trunk === sync.trunk
    && Math.sign(lanes[other.target].row - from) === Math.sign(to - from)
    && Math.abs(lanes[other.target].row - from) > Math.abs(to - from));
}

function drawTap(sync, x, y) {
  brush.fillStyle = colors[sync.state];
  brush.beginPath();
  arrowhead(x + 13, y, 9, 5);
  brush.fill();
}

function syncText(sync) {
  let parts = [sync.when, ...sync.conditions];
  if (sync.state !== "active") parts = [sync.state, ...parts, sync.reason];
  return parts.filter(Boolean).join(" · ");
}

// A shaded block arrow from lane to lane, upright.
function drawBand(sync, x, source, target) {
  const down = target > source ? 1 : -1;
  const first = sync.direction === "forward" ? 0 : 11 * down, last = sync.direction === "reverse" ? 0 : 11 * down;
  const a = source + first, b = target - last;
  brush.beginPath();
  brush.moveTo(x - 4, a);
  brush.lineTo(x - 4, b);
  if (last) { brush.lineTo(x - 8, b); brush.lineTo(x, target); brush.lineTo(x + 8, b); }
  brush.lineTo(x + 4, b);
  brush.lineTo(x + 4, a);
  if (first) { brush.lineTo(x + 8, a); brush.lineTo(x, source); brush.lineTo(x - 8, a); }
  brush.closePath();
  brush.fillStyle = brush.strokeStyle = colors[sync.state];
  brush.globalAlpha = 0.24;
  brush.fill();
  brush.globalAlpha = 1;
  brush.lineWidth = 1.2;
  brush.setLineDash(sync.state === "active" ? [] : [3, 3]);
  brush.stroke();
  brush.setLineDash([]);
}

function drawNames() {
  const width = labelWidth(), height = laneHeight(), [first, last] = rowsInView();
  brush.fillStyle = colors.paper;
  brush.fillRect(0, 0, width - 6, view.height);
  brush.textAlign = "left";
  brush.textBaseline = "middle";
  for (let row = first; row < last; row++) {
    const lane = shown.lanes[row], y = screenY(row);
    if (row % 2 === 0) {
      brush.fillStyle = colors.band;
      brush.fillRect(0, y - height / 2, width - 6, height);
    }
    brush.fillStyle = laneColor(lane.at);
    brush.fillRect(12, y - 8, 4, 16);
    brush.font = (lane.dropped ? "italic " : "600 ") + "13px " + FONT;
    brush.fillStyle = lane.dropped ? colors.soft : colors.ink;
    brush.fillText(isolated(fitted(lane.name, width - 38)), 24, y);
  }
}
