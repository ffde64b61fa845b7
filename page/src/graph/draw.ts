// Draws what is in view, and only that: links, nodes, words; then what stays in place over it.
import { drawNames, drawNodes, drawSyncs } from "./marks";
import { BLOCK, BUCKET, graph, shown, type Link } from "./model";
import { isOverview } from "./runs";
import {
  TOP, columnWidth, focus, gutterWidth, isMoving, labelWidth, laneHeight, radius, screenX, screenY,
  stage, view, wordsWidth,
} from "./view";

type ColorName =
  "paper" | "ink" | "soft" | "line" | "band" | "panel" | "active" | "held" | "detached" | "error";
const NAMES: ColorName[] = [
  "paper", "ink", "soft", "line", "band", "panel", "active", "held", "detached", "error",
];

export let brush: CanvasRenderingContext2D;
export const colors = { lanes: [] as string[] } as Record<ColorName, string> & { lanes: string[] };
export const stats = { frames: 0, nodes: 0, links: 0, milliseconds: 0 };
export const FONT = 'ui-sans-serif,system-ui,-apple-system,"Segoe UI","Noto Sans",sans-serif';

/** Begin to draw on the canvas of the stage. */
export function takeBrush(): void {
  const found = stage.canvas.getContext("2d");
  if (!found) throw new Error("this browser draws on no canvas");
  brush = found;
}


export function readColors(): void {
  const style = getComputedStyle(document.documentElement);
  for (const name of NAMES)
    colors[name] = style.getPropertyValue("--" + name).trim();
  colors.lanes = [];
  for (let at = 0; ; at++) {
    const color = style.getPropertyValue("--lane" + at).trim();
    if (!color) break;
    colors.lanes.push(color);
  }
}

export const laneColor = (lane: number): string => colors.lanes[lane % colors.lanes.length];
export const isolated = (text: string): string => "\u2068" + text + "\u2069";

export function draw(): void {
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

export function rowsInView(): [first: number, last: number] {
  const first = Math.max(0, Math.floor(view.y - 1));
  return [first, Math.min(shown.lanes.length, Math.ceil(view.y + (view.height - TOP) / laneHeight() + 1))];
}

function drawLanes(): void {
  const [first, last] = rowsInView(), height = laneHeight();
  for (let row = first; row < last; row++) {
    const y = screenY(row);
    if (row % 2 === 0) {
      brush.fillStyle = colors.band;
      brush.fillRect(0, y - height / 2, view.width, height);
    }
    brush.fillStyle = colors.line;
    brush.fillRect(labelWidth(), y - 0.5, screenX(shown.columns - 0.4) - labelWidth() + gutterWidth() - Math.max(210, wordsWidth()) - 5, 1);
  }
}

// The first node of what a place in the list of those in view can be.
export function firstNode(column: number): number {
  let low = 0, high = shown.nodes.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (shown.nodes[middle].x < column) low = middle + 1; else high = middle;
  }
  return low;
}

let ticks: [text: string, x: number][] = [];
const UNITS = [1e3, 6e4, 36e5, 864e5, 864e5 * 30];

function drawTimes(first: number, last: number): void {
  const from = firstNode(first), end = firstNode(last + 1);
  ticks = [];
  if (from >= end || isOverview()) return;
  const span = shown.nodes[end - 1].time - shown.nodes[from].time;
  const unit = UNITS.find((size) => span / size < 400) || UNITS[4];
  let free = -Infinity, latest: number | null = null;
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

function drawTimeNames(): void {
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

function linksInView(first: number, last: number): Link[] {
  const found: Link[] = [];
  stamp += 1;
  const take = (link: Link): void => {
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

function drawLinks(first: number, last: number): void {
  const plain = new Map<number, Link[]>(), blocks: Link[] = [];
  const top = -40, bottom = view.height + 40, all = linksInView(first, last);
  const isHasty = all.length > 1200 && isMoving();
  const isCrowded = isOverview() && all.length > 150;
  for (const link of all) {
    const y1 = screenY(link.source.y), y2 = screenY(link.target.y);
    if (Math.max(y1, y2) < top || Math.min(y1, y2) > bottom) continue;
    const isFar = view.k < 0.2 && link.source.lane !== link.target.lane;
    if (isFar && isHasty) continue;
    stats.links += 1;
    if (BLOCK.has(link.kind) && view.k > 0.18) { blocks.push(link); continue; }
    const isOwn = link.source === focus.selected || link.target === focus.selected;
    const fade = isOwn ? 0 : isFar || (isCrowded && link.source.lane !== link.target.lane) ? 2000 : focus.matches || (focus.selected && link.isSource) ? 1000 : 0;
    const many = Math.min(9, Math.ceil(Math.log2(link.count)));
    const style = link.target.lane % colors.lanes.length + (link.kind === "propagate" ? 100 : 0) + fade + many * 10000;
    const group = plain.get(style);
    if (group) group.push(link); else plain.set(style, [link]);
  }
  for (const [style, group] of plain) {
    brush.strokeStyle = brush.fillStyle = colors.lanes[style % 100];
    const faded = style % 10000, many = Math.floor(style / 10000), isDashed = style % 1000 >= 100;
    brush.globalAlpha = faded >= 2000 ? 0.16 : faded >= 1000 ? 0.45 : isDashed ? 0.7 : 0.9;
    brush.lineWidth = (faded >= 2000 ? 1 : isDashed ? 1.4 : 1.9) + 0.35 * many;
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
        if (link.way !== "join" && link.way !== "down") arrowhead(screenX(link.target.x) - radius() - 1, screenY(link.target.y), 5, 3.5);
      brush.fill();
    }
  }
  brush.globalAlpha = 1;
  for (const link of blocks) drawBlock(link);
}

export function arrowhead(x: number, y: number, long: number, half: number): void {
  brush.moveTo(x, y);
  brush.lineTo(x - long, y - half);
  brush.lineTo(x - long, y + half);
  brush.closePath();
}

// The same ways as in the image: level where it leaves and where it arrives.
function trace(link: Link, head: number): void {
  const r = radius() + 1;
  const x1 = screenX(link.source.x) + r, y1 = screenY(link.source.y);
  const x2 = screenX(link.target.x) - r - head, y2 = screenY(link.target.y);
  brush.moveTo(x1, y1);
  if (link.way === "down") { brush.moveTo(x1 - r, y1); brush.lineTo(x1 - r, y2); return; }
  if (link.way === "straight" || view.k < 0.2) { brush.lineTo(x2, y2); return; }
  if (link.kind === "propagate" && link.isSource && link.way !== "over") { traceSpine(link, x1, y1, x2, y2); return; }
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

// What one snapshot or run hands on to several branches goes down one spine.
function traceSpine(link: Link, x1: number, y1: number, x2: number, y2: number): void {
  const isEarly = link.way === "early" || link.way === "join" || isOverview(), turn = Math.sign(y2 - y1) * 7;
  const spine = isEarly ? Math.min(x1 + 13, x2 - 8) : Math.max(x2 - 13, x1);
  brush.moveTo(link.way === "leave" && !isEarly ? spine - 7 : x1, y1);
  brush.lineTo(spine - 7, y1);
  brush.quadraticCurveTo(spine, y1, spine, y1 + turn);
  brush.lineTo(spine, y2 - turn);
  brush.quadraticCurveTo(spine, y2, spine + 7, y2);
  if (link.way !== "join") brush.lineTo(x2, y2);
}

function drawBlock(link: Link): void {
  const sync = link.sync < 0 ? null : graph.data.syncs[link.sync];
  const color = sync ? colors[sync.state] : laneColor(link.target.lane);
  const wide = Math.max(4, 9 * Math.min(1, Math.sqrt(view.k))), half = wide * 0.9, long = wide * 1.15;
  const stroke = (width: number, style: string, alpha: number): void => {
    brush.lineWidth = width;
    brush.strokeStyle = style;
    brush.globalAlpha = alpha;
    brush.beginPath();
    trace(link, long);
    brush.stroke();
  };
  const dim = focus.matches ? 0.45 : 1;
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
