// Runs of snapshots of one branch that nothing but the branch itself and its syncs continues: each
// is one pill until it is opened.  In the overview a branch is little more than its pills.
import { arrange, graph, shown, type Node, type Place } from "./model";

const FEW = 80, LEAST_RUN = 4;
export const PLAIN = 1, OVERVIEW = 2;

export interface Run extends Place {
  kind: "run";
  key: string;
  nodes: Node[];
}

export const folding = { level: PLAIN, opened: new Set<string>() };

export const isOverview = (): boolean =>
  folding.level === OVERVIEW && graph.nodes.some((node) => node.run);

// What stays in view by itself: where branches begin, end, meet and change, and what has a name.
function isLandmark(node: Node, level: number): boolean {
  if (node.heads.length || node.tags.length || node.kind === "start") return true;
  if (level === OVERVIEW) return false;
  if (node.kind !== "transaction" && node.kind !== "propagate") return true;
  if (graph.lanes[node.lane].nodes[0] === node) return true;
  return node.outgoing.some((link) => link.kind !== "propagate" && link.target.lane !== node.lane
    && graph.lanes[link.target.lane].shown);
}

function foldLane(list: Node[], level: number): void {
  let first = 0;
  for (let at = 0; at <= list.length; at++) {
    if (at < list.length && !isLandmark(list[at], level)) continue;
    if (at - first >= LEAST_RUN) foldRun(list.slice(first, at), level);
    first = at + 1;
  }
}

function foldRun(list: Node[], level: number): void {
  const key = level + ":" + list[0].id;
  if (folding.opened.has(key)) { if (level > PLAIN) foldLane(list, level - 1); return; }
  const what = list.every((node) => node.kind === "propagate") ? "refreshes" : "commits";
  const run: Run = {
    at: -1, key, kind: "run", nodes: list, lane: list[0].lane, time: list[0].time, heads: [],
    tags: [], message: `${list.length.toLocaleString("en")} ${what}`,
    hidden: 0, x: 0, x2: 0, y: 0, gap: 9, shown: true,
  };
  for (const node of list) node.run = run;
}

export function foldAll(): void {
  let total = 0;
  for (const node of graph.nodes) { node.run = null; if (graph.lanes[node.lane].shown) total += 1; }
  if (total > FEW) for (const lane of shown.lanes) foldLane(lane.nodes, folding.level);
}

export function openRun(run: Run): void {
  folding.opened.add(run.key);
  arrange();
}

/** Bring a snapshot in view that is in a run, or on a branch that is not shown. */
export function uncover(node: Node, whenShown: () => void): void {
  const lane = graph.lanes[node.lane];
  if (!lane.shown) { lane.shown = true; whenShown(); arrange(); }
  while (node.run) openRun(node.run);
}
