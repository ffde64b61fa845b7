// The picture on a page: finds its parts there, shows a graph, and follows hands and eyes.
import { fillBranches, listenToBranches } from "./branches_menu";
import { readColors, stats, takeBrush } from "./draw";
import { dismissHint, listenToKeys, listenToPointer } from "./hands";
import { fillLegend } from "./legend";
import { arrange, graph, load, shown, type GraphData, type Node } from "./model";
import { additions, fillPanel, showPanel } from "./panel";
import { folding } from "./runs";
import { listenToSearch } from "./search";
import { select, watchers } from "./select";
import {
  clamp, fit, focus, paint, panBy, repaint, resetView, resize, screenX, screenY, stage, view, zoomAt,
  type Stage,
} from "./view";

const IDS: Record<keyof Stage, string> = {
  canvas: "canvas", panel: "panel", search: "search", found: "found", live: "live", hint: "hint",
  empty: "empty", lanes: "lanes", all: "all", none: "none", fold: "dropped", legend: "legend-body",
};

function part(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no part ${id}`);
  return found;
}

/** Show a graph in the parts of this page; what is returned takes it away again. */
export function mount(data: GraphData, watcher?: (node: Node | null) => void): () => void {
  const stop = new AbortController(), { signal } = stop;
  Object.assign(stage, Object.fromEntries(Object.entries(IDS).map(([name, id]) => [name, part(id)])));
  focus.selected = focus.hovered = focus.matches = null;
  additions.close = () => { select(null); stage.canvas.focus(); };
  additions.select = (node) => select(node, true);
  if (watcher) watchers.add(watcher);
  takeBrush();
  load(data);
  listenToPointer(signal);
  listenToKeys(signal);
  listenToSearch(signal);
  listenToBranches(signal);
  for (const [id, act] of [["in", () => zoomAt(1.3)], ["out", () => zoomAt(1 / 1.3)], ["fit", fit], ["reset", resetView]] as const)
    part(id).addEventListener("click", act, { signal });
  const observer = new ResizeObserver(() => { resize(); clamp(); paint(); });
  observer.observe(stage.canvas);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readColors(); fillBranches(); fillPanel(); repaint();
  }, { signal });
  readColors();
  resize();
  arrange();
  fillBranches();
  fillLegend();
  stage.empty.hidden = shown.nodes.length > 0;
  resetView();
  paint();
  if (window.matchMedia("(pointer: coarse)").matches) stage.hint.textContent = "drag to move · pinch to zoom · tap to open";
  const hinting = window.setTimeout(dismissHint, 6000);
  return () => {
    stop.abort();
    observer.disconnect();
    window.clearTimeout(hinting);
    if (watcher) watchers.delete(watcher);
  };
}

/** Show what became of the graph: where one looks, and at what, stays; at another moment one looks at its newest.
 *
 * Where a branch begins stands the snapshot that it begins at once more: of those, the one on the same branch stays.
 */
export function update(data: GraphData, isMoment = false): void {
  const { selected } = focus, lane = selected && graph.lanes[selected.lane].name, hadAll = view.x;
  load(data);
  focus.hovered = focus.matches = null;
  focus.selected = selected && (graph.nodes.find((node) => node.id === selected.id && graph.lanes[node.lane].name === lane) ?? graph.byId.get(selected.id) ?? null);
  arrange();
  view.x = hadAll;
  fillBranches();
  showPanel();
  stage.empty.hidden = shown.nodes.length > 0;
  if (isMoment) resetView(); else clamp();
  repaint();
}

/** What tests and people who look behind the page get at. */
export const handle = {
  view, stats, shown, folding, fit, screenX, screenY, select, panBy, zoomAt,
  get nodes() { return graph.nodes; },
  get lanes() { return graph.lanes; },
  get syncs() { return graph.data.syncs; },
  get selected() { return focus.selected; },
};
