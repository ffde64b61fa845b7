// Runs of snapshots of one branch that nothing but the branch itself and its syncs continues: each
// is one pill until it is opened.  In the overview a branch is little more than its pills.
const FEW = 80, LEAST_RUN = 4, PLAIN = 1, OVERVIEW = 2;
const folding = { level: PLAIN, opened: new Set() };

// What stays in view by itself: where branches begin, end, meet and change, and what has a name.
function isLandmark(node, level) {
  if (node.heads.length || node.tags.length || node.kind === "start") return true;
  if (level === OVERVIEW) return false;
  if (node.kind !== "transaction" && node.kind !== "propagate") return true;
  if (lanes[node.lane].nodes[0] === node) return true;
  return node.outgoing.some((link) => link.kind !== "propagate" && link.target.lane !== node.lane
    && lanes[link.target.lane].shown);
}

function foldLane(list, level) {
  let first = 0;
  for (let at = 0; at <= list.length; at++) {
    if (at < list.length && !isLandmark(list[at], level)) continue;
    if (at - first >= LEAST_RUN) foldRun(list.slice(first, at), level);
    first = at + 1;
  }
}

function foldRun(list, level) {
  const key = level + ":" + list[0].id;
  if (folding.opened.has(key)) { if (level > PLAIN) foldLane(list, level - 1); return; }
  const run = {
    at: -1, key, kind: "run", nodes: list, lane: list[0].lane, time: list[0].time, heads: [], tags: [],
    message: `${list.length.toLocaleString("en")} ${list.every((node) => node.kind === "propagate") ? "refreshes" : "commits"}`,
    hidden: 0, x: 0, x2: 0, y: 0, shown: true,
  };
  for (const node of list) node.run = run;
}

function foldAll() {
  let total = 0;
  for (const node of nodes) { node.run = null; if (lanes[node.lane].shown) total += 1; }
  if (total > FEW) for (const lane of shown.lanes) foldLane(lane.nodes, folding.level);
}

function openRun(run) {
  folding.opened.add(run.key);
  arrange();
}

// Bring a snapshot in view that is in a run, or on a branch that is not shown.
function uncover(node) {
  const lane = lanes[node.lane];
  if (!lane.shown) { lane.shown = true; fillBranches(); arrange(); }
  while (node.run) openRun(node.run);
}
