// What is known of the snapshot that is selected.
import { colors, laneColor } from "./draw";
import { count, el, said, type Child } from "./elements";
import { syncText } from "./marks";
import { graph, tablesOf, titleOf, type Detail, type Node, type Sync } from "./model";
import { focus, resize, stage } from "./view";

/** What the page around the picture adds to what is told of a snapshot. */
export const additions = {
  close: (): void => {},
  select: (_node: Node): void => {},
  parts: (_node: Node): Child[] => [],
  syncParts: (_sync: Sync): Child[] => [],
};

export function showPanel(): void {
  const { panel } = stage;
  if (panel.hidden === !focus.selected) { fillPanel(); return; }
  panel.hidden = !focus.selected;
  fillPanel();
  resize();
}

let filled = "", sought = "";

/** Bring what is told of a sync into view; it stays there while more is told above it, until somebody reads on. */
export function seekSync(name: string): void {
  sought = name;
  for (const hand of ["wheel", "pointerdown", "keydown"]) stage.panel.addEventListener(hand, () => { sought = ""; }, { once: true, passive: true });
  revealSought();
}

function revealSought(): void {
  if (!sought) return;
  const part = [...stage.panel.querySelectorAll<HTMLElement>("[data-sync]")].find((one) => one.dataset.sync === sought);
  part?.scrollIntoView({ block: "nearest" });
}

export function fillPanel(): void {
  const { panel } = stage, { selected } = focus;
  const name = selected ? `${selected.kind} ${graph.lanes[selected.lane].name} ${selected.id}` : "", top = name === filled ? panel.scrollTop : 0;
  if (name !== filled) sought = "";
  filled = name;
  const at = panel.contains(document.activeElement) ? document.activeElement : null;
  panel.replaceChildren();
  if (!selected) return;
  panel.append(...(selected.kind === "start" ? startParts(selected) : snapshotParts(selected)).filter((part) => part !== null && part !== undefined));
  panel.scrollTop = top;  // who reads on when somebody commits is not taken to the top
  revealSought();
  if (at) keepFocus(at);
}

/** What is filled anew has the focus where it was: on what says the same, or on the whole. */
function keepFocus(at: Element): void {
  const { panel } = stage;
  const same = [...panel.querySelectorAll<HTMLElement>(at.tagName)].find((one) => one.textContent === at.textContent);
  (at === panel ? panel : same ?? panel).focus({ preventScroll: true });
}

function heading(node: Node, chips: [text: string, color: string][]): Child[] {
  return [
    el("header", null, said(titleOf(node), "h2"),
      el("button", { class: "close", type: "button", "aria-label": "Close", onclick: () => additions.close() }, "×")),
    el("div", { class: "chips" }, ...chips.map(([text, color]) => el("span", { class: "chip", dir: "auto", style: { color } }, text))),
  ];
}

function startParts(node: Node): Child[] {
  const lane = graph.lanes[node.lane];
  return [
    ...heading(node, [["start of " + lane.name, laneColor(node.lane)], ...node.heads.map((name): [string, string] => ["head of " + name, laneColor(node.lane)])]),
    ...(node.heads.length ? additions.parts(node) : []),
    el("dl", null, ...pair("Stands on", idLink(node.id)), ...pair("Time", timeText(node.time))),
    ...syncParts(node),
  ];
}

function snapshotParts(node: Node): Child[] {
  const kind = graph.data.kinds.find((known) => known[0] === node.kind)?.[1] ?? node.kind;
  const chips: [string, string][] = [[kind, colors.soft]];
  for (const name of node.heads) chips.push(["head of " + name, laneColor(node.lane)]);
  if (node.isForgotten) chips.push(["its rows are kept no more", colors.detached]);
  for (const name of node.tags) chips.push(["⚑ " + name, colors.held]);
  const detail = node.detail;
  return [...heading(node, chips), ...additions.parts(node), provenance(node, detail), ...edgeParts(detail), ...diffParts(node), ...tableParts(node), ...syncParts(node)];
}

function pair(name: string, ...values: Child[]): HTMLElement[] {
  return [el("dt", null, name), el("dd", null, ...values)];
}

function timeText(time: number): Child {
  const when = new Date(time);
  return el("time", { datetime: when.toISOString(), title: when.toLocaleString() }, when.toISOString().replace("T", " ").slice(0, 19) + " UTC");
}

function idLink(id: string, label = ""): HTMLElement {
  const text = id.slice(0, 12), node = graph.byId.get(id);
  const words = label ? [said(label), " "] : [];
  if (!node) return el("span", null, ...words, el("code", { title: id }, text));
  return el("span", null, ...words, el("button", { class: "link", type: "button", "data-id": id, title: titleOf(node), onclick: () => additions.select(node) }, text));
}

function spread(parts: HTMLElement[]): Child[] {
  return parts.flatMap((part, at) => (at ? [document.createElement("br"), part] : [part]));
}

function provenance(node: Node, detail: Detail | null): Child {
  const list = el("dl", { id: "provenance" },
    ...pair("Id", el("code", null, node.id)),
    ...pair("Branch", said(graph.lanes[node.lane].name)),
    ...pair("Time", timeText(node.time)),
    ...pair("Author", said(node.author || "—")),
    ...pair("Operation", said((node.operation || node.kind).replaceAll("_", " "))));
  const parents = detail ? detail.parents : node.incoming.filter((l) => !l.isSource).map((l) => l.source.id);
  if (parents.length) list.append(...pair("Follows", ...spread(parents.map((id) => idLink(id)))));
  const sources = Object.entries((detail && detail.edge.sources) || {});
  if (sources.length) list.append(...pair("Made from", ...spread(sources.map(([name, id]) => idLink(id, name)))));
  return list;
}

const LONG = new Set(["query", "changes"]);
const UNTOLD = new Set(["at"]);

function edgeParts(detail: Detail | null): Child[] {
  const given = Object.entries((detail && detail.edge.details) || {}).filter(([name]) => !UNTOLD.has(name));
  if (!given.length) return [];
  const list = el("dl", { id: "edge" }), after: Child[] = [];
  for (const [name, value] of given)
    if (LONG.has(name)) after.push(el("pre", { dir: "auto", tabindex: "0", "aria-label": name }, name === "changes" ? (value as Change[]).map(changeText).join("\n") : String(value)));
    else list.append(...pair(name.replaceAll("_", " "), said(plainText(value))));
  return [el("h3", null, "How it was made"), list, ...after];
}

type Change = { change: string } & Record<string, unknown>;

function changeText(change: Change): string {
  const { change: name, ...given } = change;
  const parts = Object.entries(given).filter(([, value]) => value !== null && value !== "" && value !== false);
  return `${name}(${parts.map(([key, value]) => `${key}=${plainText(value)}`).join(", ")})`;
}

function plainText(value: unknown): string {
  if (value === null || typeof value !== "object") return String(value);
  const entries = Object.entries(value);
  const isFlat = !Array.isArray(value) && entries.every(([, item]) => item === null || typeof item !== "object");
  return isFlat ? entries.map(([key, item]) => `${key}: ${item}`).join(", ") || "—" : JSON.stringify(value);
}

// --- what changed --------------------------------------------------------------------------

function schemaChange(before: number | undefined, after: number | undefined): string {
  const { details } = graph.data;
  if (before === undefined) return "new table";
  if (after === undefined || !details) return "dropped";
  const [old, fresh] = [before, after].map((version) => details.versions[version][0]);
  if (old === fresh || old < 0 || fresh < 0) return "";
  const [a, b] = [old, fresh].map((at) => new Map(details.definitions[at].columns));
  const words: string[] = [];
  for (const name of b.keys()) if (!a.has(name)) words.push("+" + name);
  for (const name of a.keys()) if (!b.has(name)) words.push("−" + name);
  for (const [name, type] of b) if (a.has(name) && a.get(name) !== type) words.push(`${name}: ${a.get(name)} → ${type}`);
  return words.join(", ") || "redefined";
}

function diffParts(node: Node): Child[] {
  const detail = node.detail;
  if (!detail) return [];
  const first = graph.byId.get(detail.parents[0]);
  const before = first ? tablesOf(first) : {}, after = tablesOf(node);
  const names = new Set([...Object.keys(detail.diff || {}), ...Object.keys(detail.changed || {})]);
  if (first || !detail.parents.length)
    for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) if (before[name] !== after[name]) names.add(name);
  const title = el("h3", null, detail.parents.length ? "Changed since its parent" : "Changed");
  if (!names.size) return [title, el("p", { class: "note", style: { margin: 0 } }, "No rows.")];
  const rows = [...names].sort().map((name) => diffRow(name, detail, first || !detail.parents.length ? schemaChange(before[name], after[name]) : ""));
  const head = el("tr", null, ...["Table", "inserted", "updated", "deleted"].map((text) => el("th", { scope: "col" }, text)));
  return [title, el("table", { id: "diff" }, el("thead", null, head), el("tbody", null, ...rows))];
}

function diffRow(name: string, detail: Detail, remark: string): HTMLElement {
  const first = el("td", null, said(name), remark ? el("small", { class: "note", dir: "auto" }, " " + remark) : null);
  const counts = detail.diff && detail.diff[name];
  if (counts) {
    const cells = [["plus", "+"], ["edit", ""], ["minus", "−"]].map(([style, sign], at) => el("td", counts[at] ? { class: style } : null, counts[at] ? sign + count(counts[at]) : "·"));
    return el("tr", null, first, ...cells);
  }
  const recorded = detail.changed && detail.changed[name];
  return el("tr", null, first, el("td", { colspan: 3 }, recorded === undefined ? "not counted" : `${count(recorded)} rows written`));
}

// --- tables and syncs ----------------------------------------------------------------------

function tableParts(node: Node): Child[] {
  const { details } = graph.data;
  if (!node.detail || !details) return [];
  const tables = Object.entries(tablesOf(node)).sort();
  const title = el("h3", null, "Tables");
  if (!tables.length) return [title, el("p", { class: "note", style: { margin: 0 } }, "None yet.")];
  const kept = tables.filter(([, version]) => details.versions[version][0] >= 0);
  if (!kept.length) return [title, el("p", { class: "note", style: { margin: 0 } }, "None is kept.")];
  return [title, ...kept.map(([name, version]) => tablePart(name, details.definitions[details.versions[version][0]], details.versions[version][1]))];
}

function tablePart(
  name: string, { columns, key }: { columns: [string, string][]; key: string[] }, rows: number | null,
): HTMLElement {
  const size = `${columns.length} columns · ${rows === null ? "rows not counted" : count(rows) + (rows === 1 ? " row" : " rows")}`;
  const items = columns.map(([column, type]) => el("li", null, el("span", { dir: "auto" }, column, key.includes(column) ? el("small", { class: "note" }, "key") : null), said(type)));
  return el("details", { class: "table", "data-table": name }, el("summary", null, said(name, "b"), el("span", null, size)), el("ul", null, ...items));
}

function syncParts(node: Node): Child[] {
  const mine = graph.data.syncs.filter((sync) => sync.target === node.lane || sync.sources.includes(node.lane));
  if (!mine.length) return [];
  return [el("h3", null, "Syncs of this branch"), ...mine.map((sync) => el("p", { class: "sync", "data-sync": sync.name, style: { color: colors[sync.state] } },
    el("b", { dir: "auto" }, `${sync.sources.map((lane) => graph.lanes[lane].name).join(", ")} ${sync.arrow} ${graph.lanes[sync.target].name}`),
    said((sync.state === "active" ? "active · " : "") + syncText(sync)), ...additions.syncParts(sync)))];
}
