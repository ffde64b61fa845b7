// Draws nodes and their names, syncs beside the heads, and the names of branches.
import {
  FONT, arrowhead, brush, colors, firstNode, isolated, laneColor, rowsInView, stats,
} from "./draw";
import { graph, shown, titleOf, type Item, type Lane, type Node, type Sync } from "./model";
import { type Run } from "./runs";
import {
  areSyncsNamed, columnWidth, focus, isSyncShown, labelWidth, laneHeight, radius, reach, screenX, screenY, view,
} from "./view";

// --- nodes ---------------------------------------------------------------------------------

function shape(node: Node, x: number, y: number, r: number): void {
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

export function drawNodes(first: number, last: number): void {
  const end = firstNode(last + 1), r = radius(), labels: Item[] = [];
  const groups = new Map<number, [node: Node, x: number, y: number][]>();
  for (let at = firstNode(first); at < end; at++) {
    const node = shown.nodes[at], x = screenX(node.x), y = screenY(node.y);
    if (y < -20 || y > view.height + 20) continue;
    stats.nodes += 1;
    const isHollow = node.kind === "propagate" || node.kind === "start" || node.isForgotten;
    const isDim = focus.matches && !focus.matches.has(node.at);
    const style = node.lane % colors.lanes.length + (isHollow ? 100 : 0) + (isDim ? 1000 : 0);
    const group = groups.get(style);
    if (group) group.push([node, x, y]); else groups.set(style, [[node, x, y]]);
    if (node.heads.length || node === focus.selected || node === focus.hovered) ring(node, x, y, r);
    if (node.hidden && view.k > 0.2) older(node, x, y, r);
    if (x >= labelWidth() - 6) labels.push(node);  // one that is under the names says nothing in pieces
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
  for (const run of shown.runs) {
    if (run.x2 < first || run.x > last + 1) continue;
    stats.nodes += 1;
    drawRun(run, r);
    if (run === focus.hovered || columnWidth() < 46) labels.push(run);
  }
  drawLabels(labels, r);
}

// A run as one pill with its count in it.
function drawRun(run: Run, r: number): void {
  const [left, right] = reach(run), y = screenY(run.y), high = Math.min(2 * r + 8, laneHeight() - 3);
  if (y < -20 || y > view.height + 20) return;
  const isDim = focus.matches && !run.nodes.some((node) => focus.matches?.has(node.at));
  brush.globalAlpha = isDim ? 0.3 : 1;
  brush.beginPath();
  brush.roundRect(left, y - high / 2, right - left, high, high / 2);
  brush.fillStyle = colors.paper;
  brush.fill();
  brush.globalAlpha = (isDim ? 0.3 : 1) * (run === focus.hovered ? 0.34 : 0.2);
  brush.fillStyle = laneColor(run.lane);
  brush.fill();
  brush.globalAlpha = isDim ? 0.3 : 1;
  brush.strokeStyle = laneColor(run.lane);
  brush.lineWidth = 1.6;
  brush.stroke();
  brush.globalAlpha = 1;
  brush.font = "600 11px " + FONT;
  brush.textAlign = "center";
  brush.textBaseline = "middle";
  const from = Math.max(left, labelWidth()), to = Math.min(right, view.width), room = to - from;
  const number = run.nodes.length.toLocaleString("en");
  const text = brush.measureText(run.message).width < room - 14 ? run.message : number;
  if (high < 12 || brush.measureText(text).width > room - 6) return;
  brush.fillStyle = colors.ink;
  brush.fillText(text, (from + to) / 2, y + 0.5);
}

function ring(node: Node, x: number, y: number, r: number): void {
  brush.globalAlpha = node === focus.selected ? 0.3 : 0.18;
  brush.fillStyle = laneColor(node.lane);
  brush.beginPath();
  brush.arc(x, y, r + (node === focus.selected ? 9 : 7), 0, 7);
  brush.fill();
  brush.globalAlpha = 1;
  if (node !== focus.selected) return;
  brush.strokeStyle = colors.ink;
  brush.lineWidth = 1.5;
  brush.stroke();
}

function older(node: Node, x: number, y: number, r: number): void {
  brush.strokeStyle = laneColor(node.lane);
  brush.lineWidth = 2;
  brush.setLineDash([2, 4]);
  brush.beginPath();
  brush.moveTo(x - r - 20, y);
  brush.lineTo(x - r - 3, y);
  brush.stroke();
  brush.setLineDash([]);
}

const widths = new Map<string, string>();

function fitted(text: string, room: number): string {
  const key = text + "\u0000" + Math.round(room);
  let found = widths.get(key);
  if (found === undefined) {
    const letters = Array.from(text.replace(/\s+/g, " ").slice(0, 200));
    let count = letters.length;
    const at = (n: number): string => (n < letters.length ? letters.slice(0, n).join("").trimEnd() + "…" : letters.join(""));
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

// Words below a snapshot, as wide as its neighbours leave room, on two lines if need be; where a
// dozen letters have no room there are none, and one points at a snapshot to read its name.
function drawLabels(list: Item[], r: number): void {
  brush.textAlign = "center";
  brush.textBaseline = "middle";
  brush.lineJoin = "round";
  brush.font = "11px " + FONT;
  const below = Math.min(laneHeight() * 0.36, r + 16), isHigh = laneHeight() >= 52;
  for (const node of list) {
    if (node.kind === "run" || (focus.matches && !focus.matches.has(node.at))) continue;
    const y = screenY(node.y);
    let x = screenX(node.x);
    const room = Math.min(190, Math.max(1, node.gap) * columnWidth() - 8);
    if (room >= 70 && laneHeight() >= 40) {
      const [one, two] = lines(titleOf(node), room, isHigh);
      // The first of a branch is not cut by the names of branches.
      if (x > labelWidth() && x - room / 2 < labelWidth()) x = Math.max(x, labelWidth() + Math.max(brush.measureText(one).width, brush.measureText(two).width) / 2);
      written(one, x, y + (two ? below - 3 : below), colors.soft);
      if (two) written(two, x, y + below + 9, colors.soft);
    }
    if (node.tags.length && columnWidth() > 24)
      written(fitted("⚑ " + node.tags.join(", "), Math.max(room, 60)), x, y - r - 11, laneColor(node.lane));
  }
  for (const node of new Set([focus.hovered, focus.selected])) if (node && node.shown && !("run" in node && node.run)) plate(node, below);
}

// A text on one line or two, parted between words.
function lines(text: string, room: number, isTwo: boolean): [first: string, second: string] {
  const whole = fitted(text, room);
  if (!whole.endsWith("…") || !isTwo) return [whole, ""];
  const words = text.replace(/\s+/g, " ").split(" ");
  let count = 0;
  while (count < words.length && !fitted(words.slice(0, count + 1).join(" "), room).endsWith("…")) count += 1;
  if (!count) return [whole, ""];
  return [words.slice(0, count).join(" "), fitted(words.slice(count).join(" "), room)];
}

// The name of a node one points at, on a plate over all others.
function plate(node: Item, below: number): void {
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

function written(text: string, x: number, y: number, color: string): void {
  brush.strokeStyle = colors.paper;
  brush.lineWidth = 3;
  brush.globalAlpha = 0.85;
  brush.strokeText(isolated(text), x, y);
  brush.globalAlpha = 1;
  brush.fillStyle = color;
  brush.fillText(isolated(text), x, y);
}

// --- syncs and names -----------------------------------------------------------------------

interface Spot { sync: Sync; left: number; right: number; top: number; bottom: number }

const HAND = 10, TWO_LINES = 48;
let spots: Spot[] = [];

/** The sync whose arrow or words are at a place. */
export const syncAt = (x: number, y: number): Sync | null =>
  spots.findLast((spot) => x >= spot.left && x <= spot.right && y >= spot.top && y <= spot.bottom)?.sync ?? null;

export function drawSyncs(): void {
  spots = [];
  const syncs = graph.data.syncs.filter(isSyncShown);
  if (!syncs.length) return;
  const left = screenX(shown.columns - 0.5) + 20;
  if (left > view.width) return;
  const tracks = 1 + Math.max(...syncs.map((sync) => sync.track));
  const below = new Map<number, number>(), into = new Map<number, number>();
  for (const { target } of syncs) into.set(target, (into.get(target) ?? 0) + 1);
  brush.textAlign = "left";
  brush.textBaseline = "middle";
  for (const sync of syncs) {
    const x = left + 22 * (sync.track + 0.5), target = screenY(graph.lanes[sync.target].row);
    for (const lane of sync.sources) {
      if (!graph.lanes[lane].shown) continue;
      const source = screenY(graph.lanes[lane].row), isTap = isInside(sync, syncs);
      if (isTap) drawTap(sync, x, target); else drawBand(sync, x, source, target);
      spots.push({ sync, left: x - HAND, right: x + (isTap ? 2 : 1) * HAND, top: (isTap ? target : Math.min(source, target)) - HAND, bottom: (isTap ? target : Math.max(source, target)) + HAND });
    }
    const count = below.get(sync.target) || 0, isAlone = into.get(sync.target) === 1;
    below.set(sync.target, count + 1);
    const at = left + 22 * tracks + 8, room = view.width - at - 8;
    if (count > 1 || laneHeight() < 24 || !areSyncsNamed() || room < 40) continue;
    const y = target + 26 * count - 7;
    const names = sync.sources.map((lane) => graph.lanes[lane].name).join(", ");
    brush.font = "600 11px " + FONT;
    written(fitted(`${names} ${sync.arrow} ${graph.lanes[sync.target].name}`, Math.min(320, room)), at, y, colors.ink);
    brush.font = "11px " + FONT;
    const [how, why] = [stateWords(sync), guardWords(sync)], hasTwoLines = isAlone && why !== "" && laneHeight() >= TWO_LINES;
    const lines = hasTwoLines ? [how, why] : [syncText(sync)];
    lines.forEach((line, place) => written(fitted(line, Math.min(420, room)), at, y + 13 * (place + 1), colors[sync.state]));
    spots.push({ sync, left: at, right: at + Math.min(room, 180), top: y - 7, bottom: y + 7 + 13 * lines.length });
  }
}

// Whether another one on its track goes further, the same way: they share a trunk.
function isInside(sync: Sync, syncs: Sync[]): boolean {
  const from = graph.lanes[sync.sources[0]].row, to = graph.lanes[sync.target].row;
  return syncs.some((other) => other !== sync && other.track === sync.track && other.trunk === sync.trunk
    && Math.sign(graph.lanes[other.target].row - from) === Math.sign(to - from)
    && Math.abs(graph.lanes[other.target].row - from) > Math.abs(to - from));
}

function drawTap(sync: Sync, x: number, y: number): void {
  brush.fillStyle = colors[sync.state];
  brush.beginPath();
  arrowhead(x + 13, y, 9, 5);
  brush.fill();
}

const joined = (parts: (string | undefined)[]): string => parts.filter(Boolean).join(" · ");

/** How a sync stands, and when it runs. */
const stateWords = ({ state, when, lag }: Sync): string => joined([state === "active" ? "" : state, when, lag]);

/** Why it stopped; while it did not, what guards it. */
const guardWords = ({ state, reason, conditions }: Sync): string => joined(state !== "active" && reason ? [reason] : conditions);

export function syncText(sync: Sync): string {
  const { state, reason, conditions } = sync;
  return joined([stateWords(sync), ...conditions, state === "active" ? "" : reason]);
}

// A shaded block arrow from lane to lane, upright.
function drawBand(sync: Sync, x: number, source: number, target: number): void {
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

// A branch whose snapshots are all out of view is not empty: an arrow says on which side they are.
function drawElsewhere(lane: Lane, width: number, y: number): void {
  const last = lane.items.at(-1), first = lane.items[0];
  if (!last || !first) return;
  const isLeft = reach(last)[1] < width - radius(), isRight = reach(first)[0] > view.width;
  if (!isLeft && !isRight) return;
  brush.font = "11px " + FONT;
  const text = isLeft ? `← ${titleOf(last)}` : `${titleOf(first)} →`;
  brush.textAlign = isLeft ? "left" : "right";
  written(fitted(text, 160), isLeft ? width + 2 : view.width - 8, y, colors.soft);
  brush.textAlign = "left";
}

export function drawNames(): void {
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
    drawElsewhere(lane, width, y);
  }
}
