// Search: snapshots by id, message, author, operation or tag.
import { count, el, said } from "./elements";
import { graph, titleOf, type Node } from "./model";
import { select, tell } from "./select";
import { focus, repaint, stage } from "./view";

const MOST = 50;
let texts: { of: Node[]; all: string[] } | null = null, hits: Node[] = [], chosen = -1;

function textsOf(nodes: Node[]): string[] {
  if (texts?.of !== nodes)
    texts = {
      of: nodes,
      all: nodes.map((n) => n.kind === "start" ? ""
        : [n.id, n.message, n.operation, n.author, ...n.tags].join("\n").toLowerCase()),
    };
  return texts.all;
}

export function look(): void {
  const { search, found } = stage, wanted = search.value.trim().toLowerCase();
  const all = textsOf(graph.nodes);
  hits = wanted ? graph.nodes.filter((node) => all[node.at].includes(wanted)).reverse() : [];
  focus.matches = wanted ? new Set(hits.map((node) => node.at)) : null;
  chosen = -1;
  found.hidden = !wanted;
  search.setAttribute("aria-expanded", String(!found.hidden));
  const items = hits.slice(0, MOST).map((node, at) => el("button",
    { class: "found", type: "button", role: "option", "aria-selected": "false", id: "hit" + at, onclick: () => take(at) },
    said(titleOf(node), "b"),
    el("small", { dir: "auto" }, `${node.id.slice(0, 7)} · ${graph.lanes[node.lane].name} · ${node.author}`)));
  const note = hits.length ? `${count(hits.length)} found` : "Nothing found";
  found.replaceChildren(el("p", { class: "note" }, note), ...items);
  tell(wanted ? note : "");
  repaint();
}

export function closeFound(): void {
  stage.found.hidden = true;
  stage.search.setAttribute("aria-expanded", "false");
}

function take(at: number): void {
  if (!hits[at]) return;
  closeFound();
  select(hits[at], true);
}

export function listenToSearch(signal: AbortSignal): void {
  const { search, found } = stage;
  search.addEventListener("input", look, { signal });
  search.addEventListener("focus", () => { if (search.value.trim()) look(); }, { signal });
  search.addEventListener("keydown", (event) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter") take(Math.max(chosen, 0));
    if (!move || !hits.length) return;
    event.preventDefault();
    const items = found.querySelectorAll(".found");
    if (chosen >= 0) items[chosen].setAttribute("aria-selected", "false");
    chosen = Math.min(items.length - 1, Math.max(0, chosen + move));
    items[chosen].setAttribute("aria-selected", "true");
    items[chosen].scrollIntoView({ block: "nearest" });
    search.setAttribute("aria-activedescendant", "hit" + chosen);
  }, { signal });
}
