// The graph, live: what happened, what follows what, and what can be done from there.
import { type JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { el, type Child } from "../../graph/elements";
import { titleOf, type GraphData, type Node, type Sync } from "../../graph/model";
import { handle, mount, update } from "../../graph/mount";
import { additions, fillPanel } from "../../graph/panel";
import { Failure, get, patch, post, put, remove } from "../api";
import { useData } from "../live";
import { Choice, Dialog, Field, Nothing, Problem } from "../parts";
import { refusedWords, useRights, type Rights } from "../rights";
import { go, remember, to, type Route } from "../route";
import { actionsOf, refusedOf, SyncDialog, wordsOf, type ActedSync, type SyncAction } from "../sync_actions";
import { type SyncDeed, type SyncInfo } from "../types";
import { useDefaultBranch, useUser } from "../user";
import { duration, lagWords, number, plural, short } from "../words";
import { NewBranch } from "./new_branch";

type Deed = "branch" | "tag" | "reset" | "revert" | "pick" | "merge" | "rename" | "drop" | "default" | "untag";
/** What is done to a branch that stands here, if several do to one of them. */
const OF_HEADS: Deed[] = ["rename", "drop", "default"];
const COMBOBOX = { role: "combobox" } as object;
const KINDS = ["commit", "branch", "tag", "sync"] as const;
/** Who holds an arrow key passes many snapshots; the address tells where they rest. */
const REST_MILLISECONDS = 250;

/** The graph as it was when it had so many snapshots. */
function upTo(data: GraphData, count: number): GraphData {
  if (count >= data.nodes.length) return data;
  const nodes = data.nodes.slice(0, count), links: number[] = [];
  for (let at = 0; at < data.links.length; at += 5)
    if (data.links[at] < count && data.links[at + 1] < count) links.push(...data.links.slice(at, at + 5));
  const start = data.kinds.findIndex(([name]) => name === "start");
  const told = nodes.filter((node) => node[4] !== start).length;
  const details = data.details && { ...data.details, snapshots: data.details.snapshots.slice(0, told) };
  // What became of the syncs is known as of now only.
  return { ...data, nodes, links, details, syncs: [], isPast: true };
}

/** What a sync of the graph has besides: what may be done about it. */
type SteeredSync = Sync & { may?: SyncDeed[] };

/** The graph with how far each sync is behind, and what may be done about it. */
function withLags(data: GraphData, told: SyncInfo[]): GraphData {
  const known = new Map(told.map((sync) => [sync.name, { lag: sync.lag ? `${number(sync.lag)} behind, ${duration(sync.lag_seconds)}` : lagWords(sync), may: sync.may }]));
  return { ...data, syncs: data.syncs.map((sync): SteeredSync => ({ ...sync, ...known.get(sync.name) })) };
}

export function GraphView({ route }: { route: Route }): JSX.Element {
  const found = useData("graph", async (signal) => {
    const syncs = get<{ syncs: SyncInfo[] }>("/v1/syncs", {}, signal).catch(() => ({ syncs: [] }));
    const data = await get<GraphData>("/v1/graph", { format: "data", limit: 5000 }, signal);
    return withLags(data, (await syncs).syncs);
  }, [...KINDS]);
  const [deed, setDeed] = useState<{ what: Deed; node: Node } | null>(null);
  const [asked, setAsked] = useState<AskedSync | null>(null);
  const user = useUser(), rights = useRights(), mine = useRef(rights);
  const [moment, setMoment] = useState<number | null>(null);
  const marked = useRef<Node | null>(null);
  const isMounted = useRef(false), seen = useRef(moment);
  const data = found.data;
  const shown = useMemo(() => data && moment !== null ? upTo(data, moment) : data, [data, moment]);

  useEffect(() => {
    if (!shown) return;
    additions.parts = (node) => deedsOf(node, marked, mine.current, setDeed, setAsked);
    additions.syncParts = (sync) => [
      el("span", { class: "deeds", role: "group", "aria-label": `What can be done about ${sync.name}` }, ...syncButtons(sync, mine.current, setAsked),
        el("a", { class: "button", href: to("syncs", { name: sync.name }), "aria-label": `More about ${sync.name}` }, "More"))];
    if (isMounted.current) {
      update(shown, seen.current !== moment);
      seen.current = moment;
      return;
    }
    isMounted.current = true;
    unmount.current = mount(shown, (node) => {
      window.clearTimeout(remembering.current);
      remembering.current = window.setTimeout(() => remember("graph", { at: node?.id }), REST_MILLISECONDS);
    });
    performance.mark("first view");
    Object.assign(window, { snapshotGraph: handle });
    const wanted = handle.nodes.find((node) => route.given.at && node.id.startsWith(route.given.at));
    if (wanted) handle.select(wanted, true);
  }, [shown]);
  useEffect(() => {
    if (mine.current === rights) return;
    mine.current = rights;
    if (isMounted.current) fillPanel();
  }, [rights]);
  const unmount = useRef<() => void>(() => {}), remembering = useRef(0);
  useEffect(() => () => { window.clearTimeout(remembering.current); unmount.current(); }, []);
  useEffect(() => {
    const wanted = isMounted.current && handle.nodes.find((node) => route.given.at && node.id.startsWith(route.given.at));
    if (wanted && wanted.id !== handle.selected?.id) handle.select(wanted, true);
  }, [route.given.at]);

  const count = data?.nodes.length ?? 0, at = moment ?? count;
  const last = data?.nodes[Math.max(0, at - 1)], wanted = route.given.at ?? "";
  const isAway = wanted !== "" && data !== null && !data.nodes.some(([id]) => id.startsWith(wanted));
  return (
    <section class="graph" aria-label="Snapshot graph">
      <div class="bar">
        <div class="search">
          <input id="search" type="search" placeholder="Search id, message, author" aria-label="Search snapshots by id, message or author" autocomplete="off" spellcheck={false} {...COMBOBOX} aria-expanded="false" aria-controls="found" />
          <div id="found" class="menu" role="listbox" aria-label="Snapshots found" hidden />
        </div>
        <details class="drop" id="branches"><summary>Branches</summary>
          <div class="menu"><div class="row"><button type="button" id="all">All</button><button type="button" id="none">None</button><button type="button" id="dropped" aria-pressed="false" hidden>Show dropped</button></div><ul id="lanes" /></div>
        </details>
        <details class="drop" id="legend"><summary>Legend</summary><div class="menu" id="legend-body" /></details>
        <div class="row" role="group" aria-label="View">
          <button type="button" id="out" aria-label="Zoom out" title="Zoom out (−)">−</button>
          <button type="button" id="in" aria-label="Zoom in" title="Zoom in (+)">+</button>
          <button type="button" id="fit" title="Show everything (F)">Fit</button>
          <button type="button" id="reset" title="Back to the first view (0)">Reset</button>
        </div>
        <label class="slider"><span>As of {last ? new Date(last[5]).toISOString().slice(0, 19).replace("T", " ") + " UTC" : "—"}{moment !== null && `: ${plural(at, "snapshot")} of ${number(count)}; syncs are shown as of now only`}</span>
          <input type="range" min={1} max={Math.max(1, count)} value={at} aria-label="Show the graph as of a moment"
            aria-valuetext={`${plural(at, "snapshot")} of ${count}`}
            onInput={(event) => setMoment(Number(event.currentTarget.value) >= count ? null : Number(event.currentTarget.value))} />
        </label>
        {moment !== null && <button type="button" onClick={() => setMoment(null)}>Now</button>}
      </div>
      {isAway && <p class="note away" role="status">The snapshot {short(wanted)} is not among the {number(count)} that are drawn: it is older, or you may not read it. <a href={to("data", { ref: `id:${wanted}` })}>Its tables</a> · <a href={to("provenance", { ref: `id:${wanted}` })}>Where it comes from</a></p>}
      {found.error && <Problem error={found.error} retry={found.reload} />}
      <div class="picture">
        <div class="stage">
          <canvas id="canvas" tabIndex={0} role="application" aria-label="Snapshot graph. Arrow keys go from snapshot to snapshot, plus and minus zoom, Enter shows details, slash searches." />
          <p id="empty" hidden>No snapshots to show.</p>
          {!data && !found.error && <Nothing><p class="waiting" role="status">Loading…</p></Nothing>}
          {data && count === 0 && <Nothing><p>There is nothing that you may read. Ask who owns the database for a role.</p></Nothing>}
          {data && count === 1 && <Nothing><p>Nothing was committed yet. <a href={to("sql")}>Create a table</a> to begin.</p></Nothing>}
          <p id="hint" aria-hidden="true">drag to move · wheel to zoom · click to open</p>
        </div>
        <aside id="panel" tabIndex={-1} aria-label="Snapshot" hidden />
      </div>
      {deed?.what === "branch" && <NewBranch node={deed.node} lane={handle.lanes[deed.node.lane].name} onClose={() => setDeed(null)} />}
      {deed && deed.what !== "branch" && <DeedDialog what={deed.what} node={deed.node} onClose={() => setDeed(null)} />}
      {asked && <SyncDialog {...asked} user={user} onClose={() => setAsked(null)} />}
    </section>
  );
}

interface AskedSync { sync: ActedSync; action: SyncAction }
type AskSync = (asked: AskedSync) => void;

const actedOn = (sync: SteeredSync): ActedSync => ({ ...sync, target: handle.lanes[sync.target].name });

/** A button for each thing that can be done about a sync. */
function syncButtons(sync: Sync, rights: Rights, ask: AskSync): HTMLElement[] {
  const acted = actedOn(sync);
  return actionsOf(acted).filter((action) => !rights.sync(acted, action)).map((action) => el("button",
    { type: "button", "aria-label": `${wordsOf(action)} ${sync.name}…`, onclick: () => ask({ sync: acted, action }) }, `${wordsOf(action)}…`));
}

/** What is not offered, and why: a line for each reason. */
const refusedParts = (refused: [words: string, refusal: string][]): Child[] =>
  refusedWords(refused).map((words) => el("p", { class: "note refused", dir: "auto" }, words));

/** The right that a deed takes, wherever it can be done from a snapshot. */
function refusalOf(what: Deed, node: Node, rights: Rights): string {
  if (what === "branch" || what === "tag") return rights.someName("writer");
  if (what === "untag") return node.tags.map((tag) => rights.name(tag, "maintainer")).sort()[0] ?? "";
  if (what === "default") return rights.everywhere("maintainer");
  if (what === "rename" || what === "drop") return rights.onAnyOf(node.heads, what);
  if (what === "merge") return rights.anywhere("merge");
  return rights.anywhere(what === "reset" ? "reset" : "write");
}

function deedsOf(node: Node, marked: { current: Node | null }, rights: Rights, choose: (deed: { what: Deed; node: Node }) => void, ask: AskSync): Child[] {
  const button = (words: string, act: () => void): HTMLElement => el("button", { type: "button", onclick: act }, words);
  const refused: [words: string, refusal: string][] = [];
  const offer = (words: string, what: Deed): void => {
    const refusal = refusalOf(what, node, rights);
    if (refusal) refused.push([words, refusal]);
    else parts.push(button(words, () => choose({ what, node })));
  };
  const heads = node.heads.length > 0;
  const parts: Child[] = [
    el("a", { class: "button", href: to("data", { ref: heads ? node.heads[0] : node.id }) }, "Tables"),
    el("a", { class: "button", href: to("provenance", { ref: node.id }) }, "Where from"),
  ];
  const isStart = node.kind === "start";  // it made nothing itself
  const parent = isStart ? undefined : node.detail?.parents[0] ?? node.incoming.find((link) => !link.isSource)?.source.id;
  if (parent) parts.push(el("a", { class: "button", href: to("compare", { before: parent, after: node.id }) }, "What changed"));
  if (marked.current && marked.current !== node) {
    const [before, after] = [marked.current, node].sort((a, b) => a.sequence - b.sequence);
    parts.push(button(`Compare with ${handle.lanes[marked.current.lane].name} ${marked.current.id.slice(0, 7)}`, () => go("compare", { before: before.id, after: after.id })));
  } else if (marked.current) {
    parts.push(el("button", { type: "button", "aria-pressed": "true", onclick: () => { marked.current = null; handle.select(node); } }, "Compare: choose another snapshot"));
  } else parts.push(button("Compare…", () => { marked.current = node; handle.select(node); }));
  offer("Branch…", "branch");
  offer("Tag…", "tag");
  if (node.tags.length) offer("Drop tag…", "untag");
  if (heads) offer("Merge…", "merge");
  if (parent) offer("Pick…", "pick");
  if (!isStart) offer("Revert…", "revert");
  offer("Reset to it…", "reset");
  if (heads) {
    parts.push(el("a", { class: "button", href: to("log", { branch: node.heads[0] }) }, "Log"));
    offer("Default…", "default");
    offer("Rename…", "rename");
    offer("Drop…", "drop");
  }
  return [...handle.syncs.filter((sync) => sync.target === node.lane && sync.state !== "active").flatMap((sync) => stoppedParts(sync, rights, ask)),
    el("div", { class: "deeds", role: "group", "aria-label": "What can be done here" }, ...parts), ...refusedParts(refused)];
}

/** Why a sync stopped, and what lets it go on: told before anything else. */
function stoppedParts(sync: Sync, rights: Rights, ask: AskSync): Child[] {
  const acted = actedOn(sync);
  const actions = actionsOf(acted).filter((one) => one !== "detach" && one !== "refresh");
  const offered = actions.filter((action) => !rights.sync(acted, action));
  return [
    el("p", { class: "bad", dir: "auto", "data-sync": sync.name }, `${sync.name} is ${sync.state}${sync.reason ? `: ${sync.reason}` : ""}`),
    offered.length ? el("div", { class: "deeds", role: "group", "aria-label": `What lets ${sync.name} go on` }, ...offered.map((action, at) => el("button",
      { type: "button", class: at ? "" : "main", onclick: () => ask({ sync: acted, action }) }, `${wordsOf(action)} ${sync.name}…`))) : null,
    ...refusedParts(refusedOf(acted, actions, rights)),
  ];
}

const TITLES: Record<Exclude<Deed, "branch">, [title: string, action: string, label: string]> = {
  tag: ["A name for this snapshot", "Create tag", "Name of the tag"],
  reset: ["Let a branch be as it was here", "Reset branch", "Branch"],
  revert: ["Take this change back", "Revert", "On branch"],
  pick: ["Make this change on another branch, too", "Pick", "On branch"],
  merge: ["Merge into another branch", "Look at it first", "Into branch"],
  rename: ["Another name for a branch", "Rename", "New name"],
  drop: ["Drop a branch", "Drop branch", "Its name, to be sure"],
  default: ["The branch that is meant where none is named", "Let it be this one", ""],
  untag: ["Drop a tag", "Drop tag", ""],
};

function DeedDialog({ what, node, onClose }: { what: Exclude<Deed, "branch">; node: Node; onClose: () => void }): JSX.Element {
  const lane = handle.lanes[node.lane].name, main = useDefaultBranch(), rights = useRights();
  const meant = what === "reset" || what === "revert" ? lane : (what === "merge" || what === "pick") && lane !== main ? main : "";
  const [name, setName] = useState(rights.on(meant, what === "reset" || what === "merge" ? what : "write") ? "" : meant);
  const [title, action, label] = TITLES[what];
  const heads = node.heads.filter((one) => what === "rename" || what === "drop" ? !rights.on(one, what) : true), tags = node.tags.filter((one) => !rights.name(one, "maintainer"));
  const [head, setHead] = useState(heads[0] ?? ""), [tag, setTag] = useState(tags[0] ?? ""), [detach, setDetach] = useState(false);
  const act = async (): Promise<void> => {
    if (what === "rename") await patch("/v1/branch", { name: head, to: name });
    if (what === "drop" && name !== head) throw new Failure("name", `This is ${head}, and not ${name}.`, 0);
    if (what === "drop") await remove("/v1/branch", { name: head, detach });
    if (what === "default") await put("/v1/branch/default", { name: head });
    if (what === "untag") await remove("/v1/tag", { name: tag });
    if (what === "tag") await post("/v1/tags", { name, ref: `id:${node.id}` });
    if (what === "reset") await post("/v1/branch/reset", { branch: name, ref: `id:${node.id}` });
    if (what === "revert") await post("/v1/branch/revert", { branch: name, ref: `id:${node.id}` });
    if (what === "pick") await post("/v1/branch/cherry-pick", { branch: name, ref: `id:${node.id}` });
    if (what === "merge") go("merge", { source: node.heads[0], into: name });
  };
  return (
    <Dialog title={title} action={action} isDanger={what === "reset" || what === "drop" || what === "untag"} onClose={onClose} onDone={act}>
      <p class="note">Snapshot {node.id.slice(0, 10)} of {lane}: <span dir="auto">{titleOf(node)}</span></p>
      {OF_HEADS.includes(what) && (heads.length > 1 ? <Choice label="Branch" value={head} options={heads} onChange={setHead} /> : <p>Branch <b dir="auto">{head}</b></p>)}
      {what === "untag" && (tags.length > 1 ? <Choice label="Tag" value={tag} options={tags} onChange={setTag} /> : <p>Tag <b dir="auto">{tag}</b></p>)}
      {label && <Field label={label} value={name} onChange={setName} required list={what === "tag" || OF_HEADS.includes(what) ? undefined : "refs"} />}
      {what === "untag" && <p class="note">The snapshot stays; retention may let it go once no tag holds it.</p>}
      {what === "default" && <p class="note">Everybody begins there, on the page and elsewhere, who does not say where.</p>}
      {what === "rename" && <p class="note">What follows it, reads it or was made from it goes on under the new name.</p>}
      {what === "drop" && <><label class="tick"><input type="checkbox" checked={detach} onChange={(event) => setDetach(event.currentTarget.checked)} /> Also if a sync leads from or to it: that one ends</label>
        <p class="note">Its snapshots stay readable by their ids as long as retention keeps them.</p></>}
      {what === "reset" && <p class="note">What was committed after it stays readable by its id, and in the branch's log.</p>}
    </Dialog>
  );
}
