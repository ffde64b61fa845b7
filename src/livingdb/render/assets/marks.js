// Draws nodes and their names, syncs beside the heads, and the names of branches.

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
