// Which branches are shown.
import { laneColor } from "./draw";
import { count, el } from "./elements";
import { arrange, graph, shown, type Lane } from "./model";
import { closeFound, look } from "./search";
import { select } from "./select";
import { clamp, focus, repaint, stage } from "./view";

const droppedLanes = (): Lane[] => graph.lanes.filter((lane) => lane.dropped && graph.hasLive);

function showLanes(): void {
  arrange();
  stage.empty.hidden = shown.nodes.length > 0;
  if (focus.selected && !focus.selected.shown) select(null);
  focus.hovered = null;
  if (stage.search.value.trim()) { look(); closeFound(); }
  clamp();
  repaint();
}

export function fillBranches(): void {
  const { fold } = stage, dropped = droppedLanes();
  const isShown = dropped.length > 0 && dropped.every((lane) => lane.shown);
  fold.hidden = !dropped.length;
  fold.textContent = `${isShown ? "Fold" : "Show"} ${count(dropped.length)} dropped`;
  fold.setAttribute("aria-pressed", String(isShown));
  stage.lanes.replaceChildren(...graph.lanes.map(item));
}

function item(lane: Lane): HTMLElement {
  const box = el("input", { type: "checkbox", "data-lane": lane.at }) as HTMLInputElement;
  box.addEventListener("change", () => { lane.shown = box.checked; showLanes(); });
  box.checked = lane.shown;
  const isGone = lane.dropped && graph.data.lanes[lane.at][0];
  return el("li", null, el("label", null, box,
    el("span", { class: "swatch", style: { background: laneColor(lane.at) } }),
    el("span", { class: "name", dir: "auto" }, lane.name + (isGone ? " (dropped)" : ""))));
}

export function listenToBranches(signal: AbortSignal): void {
  const showEach = (isShown: (lane: Lane) => boolean): void => {
    for (const lane of graph.lanes) lane.shown = isShown(lane);
    fillBranches();
    showLanes();
  };
  stage.all.addEventListener("click", () => showEach((lane) => !(lane.dropped && graph.hasLive)), { signal });
  stage.none.addEventListener("click", () => showEach(() => false), { signal });
  // Dropped branches come and go together.
  stage.fold.addEventListener("click", () => {
    const isShown = !droppedLanes().every((lane) => lane.shown);
    showEach((lane) => (lane.dropped && graph.hasLive ? isShown : lane.shown));
  }, { signal });
}
