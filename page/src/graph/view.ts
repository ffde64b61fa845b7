// Where one looks: `x`, `y` is the place at the top left in units of columns and lanes, `k` the zoom.
import { draw } from "./draw";
import { COLUMN, LANE, arrange, firstAfter, graph, shown, type Item, type Node, type Sync } from "./model";
import { OVERVIEW, PLAIN, folding, isOverview, type Run } from "./runs";

/** The parts of the page that the picture is in. */
export interface Stage {
  canvas: HTMLCanvasElement;
  panel: HTMLElement;
  search: HTMLInputElement;
  found: HTMLElement;
  live: HTMLElement;
  hint: HTMLElement;
  empty: HTMLElement;
  lanes: HTMLElement;
  all: HTMLElement;
  none: HTMLElement;
  fold: HTMLElement;
  legend: HTMLElement;
}

export const stage = {} as Stage;
export const view = { x: 0, y: 0, k: 1, squeeze: 1, width: 0, height: 0 };
export const focus = {
  selected: null as Node | null,
  hovered: null as Item | null,
  matches: null as Set<number> | null,
};
export const TOP = 30;
const LEAST = 0.012, MOST = 3, LEAST_COLUMNS = 3;
let isDirty = true;


export const columnWidth = (): number => COLUMN * view.k;
export const laneHeight = (): number =>
  Math.max(19, LANE * Math.min(1.15, Math.max(0.4, Math.sqrt(view.k))) * view.squeeze);
export const labelWidth = (): number =>
  Math.min(190, Math.max(96, view.width * 0.3), 42 + 8.6 * longestName());
export const screenX = (column: number): number => labelWidth() + (column + 0.5 - view.x) * columnWidth();
export const screenY = (row: number): number => TOP + (row + 0.5 - view.y) * laneHeight();

function longestName(): number {
  let most = 8;
  for (const lane of shown.lanes) most = Math.max(most, Math.min(lane.name.length, 22));
  return most;
}

export function repaint(): void {
  if (!isDirty) { isDirty = true; requestAnimationFrame(paint); }
}

export function paint(): void {
  isDirty = false;
  draw();
}

/** Where there is no room for words beside the heads, syncs are arrows, and the panel tells of them. */
export const areSyncsNamed = (): boolean => view.width >= 560;

/** What the words beside syncs may take: more where there is more. */
export const wordsWidth = (): number => areSyncsNamed() ? Math.min(320, Math.max(210, view.width * 0.2)) : 0;

export function gutterWidth(): number {
  const syncs = graph.data.syncs.filter(isSyncShown);
  if (!syncs.length) return 40;
  return 40 + 22 * (1 + Math.max(...syncs.map((sync) => sync.track))) + wordsWidth();
}

export function isSyncShown(sync: Sync): boolean {
  return graph.lanes[sync.target].shown && sync.sources.some((lane) => graph.lanes[lane].shown);
}

export function clamp(): void {
  view.k = Math.min(MOST, Math.max(LEAST, view.k));
  const wide = (view.width - labelWidth()) / columnWidth(), high = (view.height - TOP) / laneHeight();
  const gutter = gutterWidth() / columnWidth();
  const right = Math.max(0, shown.columns + gutter - wide), room = high - shown.lanes.length - coveredHeight() / laneHeight();
  view.x = Math.min(right + wide * 0.5, Math.max(-wide * 0.5, view.x));
  // Lanes that all fit stay in view; others leave some room above and below.
  view.y = room > 0 ? Math.min(0, Math.max(-room, view.y)) : Math.min(0.8 - room, Math.max(-0.4, view.y));
}

// While the view moves, what takes long and is too far away to be told apart is left out.
let movesUntil = 0, stillness = 0;

export const isMoving = (): boolean => performance.now() < movesUntil;

function moves(): void {
  movesUntil = performance.now() + 150;
  clearTimeout(stillness);
  stillness = window.setTimeout(repaint, 170);
}

export function panBy(dx: number, dy: number): void {
  moves();
  view.x -= dx / columnWidth();
  view.y -= dy / laneHeight();
  clamp();
  repaint();
}

export function zoomAt(factor: number, px = (view.width + labelWidth()) / 2, py = view.height / 2): void {
  moves();
  const column = view.x + (px - labelWidth()) / columnWidth(), row = view.y + (py - TOP) / laneHeight();
  view.k = Math.min(MOST, Math.max(LEAST, view.k * factor));
  view.x = column - (px - labelWidth()) / columnWidth();
  // Lanes that all fit stay where they are.
  if (shown.lanes.length * laneHeight() > view.height - TOP) view.y = row - (py - TOP) / laneHeight();
  clamp();
  repaint();
}

// Everything at once: with all runs closed, or, where that cannot be read, as the overview.
export function fit(): void {
  folding.opened.clear();
  for (const level of [PLAIN, OVERVIEW]) {
    folding.level = level;
    arrange();
    fitAll();
    if (view.k >= 0.42) break;
  }
  const high = (view.height - TOP) / Math.max(1, shown.lanes.length) / laneHeight();
  view.squeeze = Math.min(1, Math.max(0.2, high));
  clamp();
  repaint();
}

function fitAll(): void {
  view.squeeze = 1;
  const room = Math.max(60, view.width - labelWidth() - Math.min(gutterWidth(), view.width * 0.36));
  const most = isOverview() ? 1.5 : 1;
  view.k = Math.min(most, Math.max(LEAST, room / (Math.max(shown.columns, 1) * COLUMN)));
  view.x = 0;
  view.y = -0.2;
  clamp();
  repaint();
}

// Everything, if it can be read; else the newest, at the right.
export function resetView(): void {
  folding.opened.clear();
  folding.level = PLAIN;
  arrange();
  fitAll();
  if (view.k < 0.62) {
    // Where there is little room, snapshots have more of it than arrows.
    const room = view.width - labelWidth() - Math.min(gutterWidth(), view.width * (areSyncsNamed() ? 0.36 : 0.22));
    view.k = Math.min(1, Math.max(0.62, room / (LEAST_COLUMNS * COLUMN)));
    const wide = room / columnWidth();
    view.x = Math.max(0, shown.columns - Math.max(wide, 2));
    clamp();
    repaint();
  }
}

export function reveal(node: Node): void {
  const x = screenX(node.x), y = screenY(node.y), edge = 60;
  if (x < labelWidth() + edge || x > view.width - edge)
    view.x = node.x + 0.5 - (view.width - labelWidth()) / 2 / columnWidth();
  const low = view.height - coveredHeight();
  if (y < TOP + edge / 2 || y > low - edge / 2)
    view.y = node.y + 0.5 - (low - TOP) / 2 / laneHeight();
  clamp();
  repaint();
}

// What the panel hides of the canvas, where the two share a small screen.
function coveredHeight(): number {
  const side = stage.panel;
  return side.hidden || getComputedStyle(side).position !== "absolute" ? 0 : side.offsetHeight;
}

/** The newest snapshot of the branch whose name is there. */
export function headAt(px: number, py: number): Node | null {
  if (px < 0 || px >= labelWidth() - 6 || py < TOP - 4) return null;
  const lane = shown.lanes[Math.round((py - TOP) / laneHeight() + view.y - 0.5)];
  return lane?.nodes.at(-1) ?? null;
}

export function nodeAt(px: number, py: number): Item | null {
  if (px < labelWidth()) return null;
  const near = Math.max(14, radius() + 5);
  const row = Math.round((py - TOP) / laneHeight() + view.y - 0.5);
  const lane = shown.lanes[row];
  if (!lane || Math.abs(screenY(row) - py) > near) return null;
  const column = (px - labelWidth()) / columnWidth() + view.x - 0.5;
  let best: Item | null = null, distance = near;
  const from = Math.max(0, firstAfter(lane.xs, column - near / columnWidth() - 1) - 1);
  for (let at = from; at < lane.xs.length && lane.xs[at] <= column + near / columnWidth() + 1; at++) {
    const item = lane.items[at], [left, right] = reach(item);
    const away = px < left ? left - px : px > right ? px - right : 0;
    if (away <= distance) { distance = away; best = item; }
  }
  return best;
}

// From where to where an item is drawn.
export function reach(item: Item | Run): [left: number, right: number] {
  const left = screenX(item.x), right = screenX(item.x2);
  if (item.kind !== "run") return [left, right];
  const half = Math.max(5, Math.min(34, columnWidth() * 0.36));
  return [left - half, right + half];
}

export function radius(): number {
  return Math.min(8, Math.max(2, 7 * Math.sqrt(view.k)));
}

export function resize(): void {
  const { canvas } = stage, box = canvas.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
  view.width = box.width;
  view.height = box.height;
  canvas.width = Math.round(box.width * ratio);
  canvas.height = Math.round(box.height * ratio);
}
