// Which snapshot is looked at, and the ways from one to the next.
import { fillBranches } from "./branches_menu";
import { graph, shown, titleOf, type Item, type Node, type Sync } from "./model";
import { seekSync, showPanel } from "./panel";
import { openRun, uncover, type Run } from "./runs";
import { clamp, columnWidth, focus, repaint, reveal, screenX, stage, view } from "./view";

/** Called with what is selected, or with null where nothing is any more. */
export const watchers = new Set<(node: Node | null) => void>();

/** Say something to who listens to the page. */
export function tell(words: string): void {
  stage.live.textContent = words;
}

export function select(item: Item | null, isRevealed = false): void {
  if (item && item.kind === "run") { open(item as Run); return; }
  const node = item as Node | null;
  if (node) uncover(node, fillBranches);
  focus.selected = node;
  showPanel();
  if (node) {
    tell(`${titleOf(node)}, ${node.id.slice(0, 7)}, ${graph.lanes[node.lane].name}`);
    if (isRevealed || !stage.panel.hidden) reveal(node);
  }
  repaint();
  for (const watcher of watchers) watcher(node);
}

/** The newest snapshot of what a sync makes, and there what is told of the sync. */
export function selectSync(sync: Sync): void {
  const head = graph.lanes[sync.target].nodes.at(-1);
  if (!head) return;
  select(head, true);
  seekSync(sync.name);
}

function open(run: Run): void {
  const x = screenX(run.x);
  openRun(run);
  view.x += (screenX(run.nodes[0].x) - x) / columnWidth();
  focus.hovered = null;
  tell(`${run.message} of ${graph.lanes[run.lane].name} are shown`);
  clamp();
  repaint();
}

export const oldest = (): Node | undefined => graph.nodes.find((node) => node.shown);
export const newest = (): Node | undefined => graph.nodes.findLast((node) => node.shown);

/** To the one before or after on its branch, or beyond where that begins or ends. */
export function step(direction: number): void {
  if (!shown.nodes.length) return;
  const { selected } = focus;
  if (!selected || !selected.shown) { select(newest() ?? null, true); return; }
  const line = graph.lanes[selected.lane].nodes;
  const next = line[line.indexOf(selected) + direction];
  if (next) { select(next, true); return; }
  const beyond = direction < 0
    ? selected.incoming.map((link) => link.source)
    : selected.outgoing.map((link) => link.target);
  const found = beyond.find((node) => node.shown);
  if (found) select(found, true);
}

/** To the nearest one on the branch above or below. */
export function hop(direction: number): void {
  const { selected } = focus;
  if (!selected || !selected.shown) { step(0); return; }
  for (let row = selected.y + direction; shown.lanes[row]; row += direction) {
    let near: Node | null = null;
    for (const node of shown.lanes[row].nodes)
      if (!near || Math.abs(node.x - selected.x) < Math.abs(near.x - selected.x)) near = node;
    if (near) { select(near, true); return; }
  }
}
