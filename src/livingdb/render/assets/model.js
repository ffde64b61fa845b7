// The data of the page, and which of it is shown.
const data = JSON.parse(document.getElementById("data").textContent);
const LANE = 66, COLUMN = 92, BUCKET = 64;
const KIND = data.kinds.map((kind) => kind[0]);
const BLOCK = new Set(["schema_change", "clone", "derive"]);

const nodes = data.nodes.map((n, at) => ({
  at, id: n[0], sequence: n[1], lane: n[2], column: n[3], kind: KIND[n[4]], time: n[5],
  author: data.authors[n[6]], message: n[7], operation: n[8], heads: n[9], tags: n[10],
  hidden: n[11], incoming: [], outgoing: [], detail: null, x: 0, x2: 0, y: 0, shown: true, run: null,
}));
const links = [];
for (let at = 0; at < data.links.length; at += 5) {
  const [s, t, kind, isSource, sync] = data.links.slice(at, at + 5);
  const link = { source: nodes[s], target: nodes[t], kind: KIND[kind], isSource, sync, seen: 0, way: 0 };
  nodes[t].incoming.push(link);
  nodes[s].outgoing.push(link);
  links.push(link);
}
// Branches that are there; those that were dropped are folded away, unless there are no others.
const hasLive = data.lanes.some(([, dropped]) => !dropped);
const lanes = data.lanes.map(([name, dropped], at) => ({
  at, name: name || "dropped", dropped, shown: !(dropped && hasLive), row: at, nodes: [], items: [], xs: [],
}));
for (const node of nodes) lanes[node.lane].nodes.push(node);
const byId = new Map();
for (const node of nodes) if (node.kind !== "start") byId.set(node.id, node);
if (data.details) {
  const snapshots = nodes.filter((node) => node.kind !== "start");
  snapshots.forEach((node, at) => { node.detail = data.details.snapshots[at]; });
}

function titleOf(node) {
  return node.message || (node.operation || node.kind).replaceAll("_", " ");
}

// The tables of a snapshot: its own changes over those of its first parent, back to a whole list.
function tablesOf(node) {
  const line = [];
  for (let at = node; at; at = byId.get(at.detail.parents[0])) {
    if (!at.detail) return {};
    line.push(at.detail);
    if (at.detail.whole) break;
  }
  const tables = {};
  for (const detail of line.reverse())
    for (const [name, version] of Object.entries(detail.tables))
      if (version === null) delete tables[name]; else tables[name] = version;
  return tables;
}

// What is shown, packed: no empty lanes or columns are left where branches are hidden or runs folded.
const shown = { nodes: [], runs: [], columns: 1, lanes: [], buckets: [], long: [] };

function arrange() {
  shown.lanes = lanes.filter((lane) => lane.shown);
  shown.lanes.forEach((lane, row) => { lane.row = row; lane.xs = []; lane.items = []; });
  for (const node of nodes) node.shown = lanes[node.lane].shown;
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

const isOverview = () => folding.level === OVERVIEW && nodes.some((node) => node.run);

function addItem(item, x) {
  const lane = lanes[item.lane];
  item.x = item.x2 = x;
  item.y = lane.row;
  lane.xs.push(x);
  lane.items.push(item);
  if (item.kind === "run") shown.runs.push(item); else shown.nodes.push(item);
}

// Time goes from column to column, whatever the branch.
function placeByTime() {
  let last = -1, column = -1;
  for (const node of nodes) {
    if (!node.shown) continue;
    const run = node.run, isItem = !run || run.nodes[0] === node;
    if (isItem && node.column !== last) { column += 1; last = node.column; }
    if (isItem) addItem(run || node, column);
    if (!run) continue;
    node.x = node.x2 = run.x2 = column;
    node.y = run.y;
  }
  return column + 1;
}

// As far to the left as what something was made from lets it be.
function placeByDepth() {
  let most = 0;
  for (const node of nodes) {
    if (!node.shown) continue;
    const item = node.run || node, items = lanes[node.lane].items;
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
function placeLinks() {
  const bundles = new Map(), all = [];
  for (const link of links) {
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

function firstAfter(values, value) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= value) low = middle + 1; else high = middle;
  }
  return low;
}

function isFree(lane, after, before) {
  const at = firstAfter(lane.xs, after);
  return at >= lane.xs.length || lane.xs[at] >= before;
}

// Straight, over the nodes between, along the lane of the target or of the source, or across.
// Where that lane has a line of its own already, a link joins it or leaves it.
function wayOf({ source, target }) {
  if (source.x >= target.x) return "down";
  if (source.lane === target.lane)
    return isFree(lanes[source.lane], source.x, target.x) ? "straight" : "over";
  if (isFree(lanes[target.lane], source.x, target.x)) {
    const own = target.incoming.some((link) => link.source.lane === target.lane && link.source.x <= source.x);
    return own && target.x - source.x > 1 ? "join" : "early";
  }
  if (!isFree(lanes[source.lane], source.x, target.x)) return "across";
  const own = source.outgoing.some((link) => link.target.lane === source.lane && link.target.x >= target.x);
  return own && target.x - source.x > 1 ? "leave" : "late";
}
