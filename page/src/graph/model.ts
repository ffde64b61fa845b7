// The graph that is shown: its data, and where each snapshot stands.
import { foldAll, isOverview, type Run } from "./runs";

export const LANE = 66, COLUMN = 92, BUCKET = 64;
export const BLOCK = new Set(["schema_change", "clone", "derive"]);

/** What Python tells of a graph: lists in place of names, so that it is small. */
export interface GraphData {
  title: string;
  kinds: [name: string, title: string][];
  lanes: [name: string, isDropped: number][];
  authors: string[];
  nodes: [
    id: string, sequence: number, lane: number, column: number, kind: number, time: number,
    author: number, message: string, operation: string, heads: string[], tags: string[],
    hidden: number, isForgotten: number,
  ][];
  links: number[];
  syncs: Sync[];
  details: Details | null;
  isPast?: boolean;
}

export interface Sync {
  name: string;
  sources: number[];
  target: number;
  direction: "forward" | "reverse" | "both";
  arrow: string;
  when: string;
  state: "active" | "held" | "detached" | "error";
  kind: string;
  reason: string;
  conditions: string[];
  lag?: string;
  track: number;
  trunk: number;
}

export interface Details {
  definitions: { columns: [name: string, type: string][]; key: string[] }[];
  versions: [definition: number, rows: number | null][];
  snapshots: Detail[];
}

export interface Detail {
  edge: { sources?: Record<string, string>; details?: Record<string, unknown> };
  parents: string[];
  tables: Record<string, number | null>;
  whole?: boolean;
  diff?: Record<string, [inserted: number, updated: number, deleted: number]>;
  changed?: Record<string, number>;
}

/** What has a place in the picture: a snapshot, or a run of them. */
export interface Place {
  at: number;
  kind: string;
  lane: number;
  time: number;
  message: string;
  heads: string[];
  tags: string[];
  hidden: number;
  x: number;
  x2: number;
  y: number;
  gap: number;
  shown: boolean;
}

export interface Node extends Place {
  id: string;
  sequence: number;
  column: number;
  author: string;
  operation: string;
  incoming: Link[];
  outgoing: Link[];
  detail: Detail | null;
  isForgotten: boolean;
  run: Run | null;
}

export type Item = Node | Run;
export type Way = "straight" | "over" | "early" | "late" | "join" | "leave" | "across" | "down";

export interface Link {
  source: Node;
  target: Node;
  kind: string;
  isSource: number;
  sync: number;
  seen: number;
  count: number;
  way: Way;
}

export interface Lane {
  at: number;
  name: string;
  dropped: boolean;
  shown: boolean;
  row: number;
  nodes: Node[];
  items: Item[];
  xs: number[];
}

const NOTHING: GraphData = {
  title: "", kinds: [], lanes: [], authors: [], nodes: [], links: [], syncs: [], details: null,
};

export const graph = {
  data: NOTHING,
  nodes: [] as Node[],
  links: [] as Link[],
  lanes: [] as Lane[],
  byId: new Map<string, Node>(),
  hasLive: false,
};

// What is shown, packed: no empty lanes or columns are left where branches are hidden or runs folded.
export const shown = {
  nodes: [] as Node[],
  runs: [] as Run[],
  columns: 1,
  lanes: [] as Lane[],
  buckets: [] as Link[][],
  long: [] as Link[],
};

/** Take a graph in place of the one there was; lanes that were hidden or shown by hand stay so. */
export function load(data: GraphData): void {
  const kinds = data.kinds.map(([name]) => name);
  const byHand = new Map(graph.lanes.map((lane) => [lane.name, lane.shown]));
  graph.data = data;
  graph.nodes = data.nodes.map((n, at) => ({
    at, id: n[0], sequence: n[1], lane: n[2], column: n[3], kind: kinds[n[4]], time: n[5],
    author: data.authors[n[6]], message: n[7], operation: n[8], heads: n[9], tags: n[10],
    hidden: n[11], isForgotten: Boolean(n[12]), incoming: [], outgoing: [], detail: null, x: 0, x2: 0, y: 0, gap: 9,
    shown: true, run: null,
  }));
  graph.links = [];
  for (let at = 0; at < data.links.length; at += 5) {
    const [s, t, kind, isSource, sync] = data.links.slice(at, at + 5);
    const link: Link = {
      source: graph.nodes[s], target: graph.nodes[t], kind: kinds[kind], isSource, sync,
      seen: 0, count: 1, way: "straight",
    };
    link.target.incoming.push(link);
    link.source.outgoing.push(link);
    graph.links.push(link);
  }
  // Dropped branches are folded away, unless there are no others.
  graph.hasLive = data.lanes.some(([, dropped]) => !dropped);
  graph.lanes = data.lanes.map(([name, dropped], at) => ({
    at, name: name || "dropped", dropped: Boolean(dropped),
    shown: byHand.get(name || "dropped") ?? !(dropped && graph.hasLive),
    row: at, nodes: [], items: [], xs: [],
  }));
  for (const node of graph.nodes) graph.lanes[node.lane].nodes.push(node);
  const snapshots = graph.nodes.filter((node) => node.kind !== "start");
  graph.byId = new Map(snapshots.map((node) => [node.id, node]));
  snapshots.forEach((node, at) => { node.detail = data.details?.snapshots[at] ?? null; });
}

export function titleOf(item: Item): string {
  if (item.message || item.kind === "run") return item.message;
  const node = item as Node;
  return (node.operation || node.kind).replaceAll("_", " ");
}

/** The tables of a snapshot: its own changes over those of its first parent, back to a whole list. */
export function tablesOf(node: Node): Record<string, number> {
  const line: Detail[] = [];
  for (let at: Node | undefined = node; at; ) {
    const detail: Detail | null = at.detail;
    if (!detail) return {};
    line.push(detail);
    if (detail.whole) break;
    at = graph.byId.get(detail.parents[0]);
  }
  const tables: Record<string, number> = {};
  for (const detail of line.reverse())
    for (const [name, version] of Object.entries(detail.tables))
      if (version === null) delete tables[name]; else tables[name] = version;
  return tables;
}

export function arrange(): void {
  // Of a moment that is past only those branches are shown that there were.
  shown.lanes = graph.lanes.filter((lane) => lane.shown && (!graph.data.isPast || lane.nodes.length > 0));
  shown.lanes.forEach((lane, row) => { lane.row = row; lane.xs = []; lane.items = []; });
  for (const node of graph.nodes) node.shown = graph.lanes[node.lane].shown;
  foldAll();
  shown.nodes = [];
  shown.runs = [];
  shown.columns = isOverview() ? placeByDepth() : placeByTime();
  for (const lane of shown.lanes)
    lane.items.forEach((item, at) => {
      const before = lane.items[at - 1], after = lane.items[at + 1];
      item.gap = Math.min(before ? item.x - before.x2 : 9, after ? after.x - item.x2 : 9);
    });
  placeLinks();
}

function addItem(item: Item, x: number): void {
  const lane = graph.lanes[item.lane];
  item.x = item.x2 = x;
  item.y = lane.row;
  lane.xs.push(x);
  lane.items.push(item);
  if (item.kind === "run") shown.runs.push(item as Run); else shown.nodes.push(item as Node);
}

// Time goes from column to column, whatever the branch.
function placeByTime(): number {
  let last = -1, column = -1;
  for (const node of graph.nodes) {
    if (!node.shown) continue;
    const run = node.run, isItem = !run || run.nodes[0] === node;
    if (isItem && node.column !== last) { column += 1; last = node.column; }
    if (isItem) addItem(run ?? node, column);
    if (!run) continue;
    node.x = node.x2 = run.x2 = column;
    node.y = run.y;
  }
  return column + 1;
}

// As far to the left as what something was made from lets it be.
function placeByDepth(): number {
  let most = 0;
  for (const node of graph.nodes) {
    if (!node.shown) continue;
    const item = node.run ?? node, items = graph.lanes[node.lane].items;
    if (items[items.length - 1] !== item) {
      let x = items.length ? items[items.length - 1].x + 1 : 0;
      for (const link of node.incoming)
        if (link.source.shown && link.source.lane !== node.lane) x = Math.max(x, link.source.x + 1);
      addItem(item, x);
      most = Math.max(most, x);
    }
    node.x = node.x2 = item.x;
    node.y = item.y;
  }
  shown.nodes.sort((a, b) => a.x - b.x);
  return most + 1;
}

// Links between the same two runs are one; within a run there are none.
function placeLinks(): void {
  const bundles = new Map<string, Link>(), all: Link[] = [];
  for (const link of graph.links) {
    const { source, target } = link;
    if (!source.shown || !target.shown || (source.run && source.run === target.run)) continue;
    link.count = 1;
    if (!source.run && !target.run) { all.push(link); continue; }
    const key = [source.run ? source.run.key : source.at, target.run ? target.run.key : target.at, link.kind].join(">");
    const known = bundles.get(key);
    bundles.set(key, { ...link, count: known ? known.count + 1 : 1 });
  }
  shown.buckets = [];
  shown.long = [];
  for (const link of [...all, ...bundles.values()]) {
    link.way = wayOf(link);
    const first = Math.floor(link.source.x / BUCKET), end = Math.floor(link.target.x / BUCKET);
    if (end - first > 8) { shown.long.push(link); continue; }
    for (let at = first; at <= end; at++) (shown.buckets[at] ||= []).push(link);
  }
}

export function firstAfter(values: number[], value: number): number {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= value) low = middle + 1; else high = middle;
  }
  return low;
}

function isFree(lane: Lane, after: number, before: number): boolean {
  const at = firstAfter(lane.xs, after);
  return at >= lane.xs.length || lane.xs[at] >= before;
}

// Straight, over the nodes between, along the lane of the target or of the source, or across.
// Where that lane has a line of its own already, a link joins it or leaves it.
function wayOf({ source, target }: Link): Way {
  if (source.x >= target.x) return "down";
  if (source.lane === target.lane)
    return isFree(graph.lanes[source.lane], source.x, target.x) ? "straight" : "over";
  if (isFree(graph.lanes[target.lane], source.x, target.x)) {
    const own = target.incoming.some((link) => link.source.lane === target.lane && link.source.x <= source.x);
    return own && target.x - source.x > 1 ? "join" : "early";
  }
  if (!isFree(graph.lanes[source.lane], source.x, target.x)) return "across";
  const own = source.outgoing.some((link) => link.target.lane === source.lane && link.target.x >= target.x);
  return own && target.x - source.x > 1 ? "leave" : "late";
}
