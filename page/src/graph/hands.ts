// Hands: pointer, wheel and keys.
import { syncAt } from "./marks";
import { type Item } from "./model";
import { hop, newest, oldest, select, selectSync, step } from "./select";
import { closeFound, look } from "./search";
import { fit, focus, headAt, nodeAt, panBy, repaint, resetView, stage, zoomAt } from "./view";

const pointers = new Map<number, [x: number, y: number]>();
let moved = 0, spread = 0;

function place(event: MouseEvent): [x: number, y: number] {
  const box = stage.canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

export function dismissHint(): void {
  stage.hint.classList.add("gone");
}

function hover(x: number, y: number): void {
  const item: Item | null = nodeAt(x, y);
  stage.canvas.classList.toggle("over", Boolean(item ?? headAt(x, y) ?? syncAt(x, y)));
  if (item === focus.hovered) return;
  focus.hovered = item;
  repaint();
}

function pinch(): void {
  const [[ax, ay], [bx, by]] = [...pointers.values()];
  const apart = Math.hypot(ax - bx, ay - by);
  if (spread) zoomAt(apart / spread, (ax + bx) / 2, (ay + by) / 2);
  spread = apart;
}

export function listenToPointer(signal: AbortSignal): void {
  const { canvas } = stage;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, place(event));
    moved = pointers.size > 1 ? 99 : 0;
    spread = 0;
    canvas.classList.add("moving");
    dismissHint();
  }, { signal });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event), before = pointers.get(event.pointerId);
    if (!before) { hover(x, y); return; }
    pointers.set(event.pointerId, [x, y]);
    if (pointers.size === 2) { pinch(); return; }
    moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
    if (moved > 3) panBy(x - before[0], y - before[1]);
  }, { signal });
  for (const name of ["pointerup", "pointercancel"] as const)
    canvas.addEventListener(name, (event) => {
      const wasClick = pointers.size === 1 && moved <= 3 && name === "pointerup";
      pointers.delete(event.pointerId);
      spread = 0;
      if (!pointers.size) canvas.classList.remove("moving");
      if (!wasClick) return;
      const head = headAt(...place(event)), item = nodeAt(...place(event)), sync = syncAt(...place(event));
      if (head) select(head, true);
      else if (!item && sync) selectSync(sync);
      else select(item);
    }, { signal });
  canvas.addEventListener("contextmenu", (event) => {
    const item = nodeAt(...place(event));
    if (!item) return;
    event.preventDefault();
    select(item);
    stage.panel.focus();
  }, { signal });
  canvas.addEventListener("pointerleave", () => hover(-1, -1), { signal });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    dismissHint();
    const unit = event.deltaMode === 1 ? 16 : 1;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      panBy(-(event.deltaX || event.deltaY) * unit, 0);
      return;
    }
    const turned = Math.max(-240, Math.min(240, event.deltaY * unit));
    zoomAt(Math.exp(-turned * 0.0022), ...place(event));
  }, { passive: false, signal });
}

const KEYS: Record<string, () => void> = {
  ArrowLeft: () => step(-1), ArrowRight: () => step(1), ArrowUp: () => hop(-1), ArrowDown: () => hop(1),
  "+": () => zoomAt(1.3), "=": () => zoomAt(1.3), "-": () => zoomAt(1 / 1.3), "0": resetView, f: fit,
  Home: () => select(oldest() ?? null, true),
  End: () => select(newest() ?? null, true),
  Enter: () => { if (focus.selected) stage.panel.focus(); },
};
const PANS: Record<string, [dx: number, dy: number]> = {
  ArrowLeft: [80, 0], ArrowRight: [-80, 0], ArrowUp: [0, 60], ArrowDown: [0, -60],
};

const openMenus = (): NodeListOf<HTMLDetailsElement> => document.querySelectorAll("details.drop[open]");

export function listenToKeys(signal: AbortSignal): void {
  const { canvas, search, found } = stage;
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const pan = event.shiftKey && PANS[event.key];
    const act = pan ? () => panBy(...pan) : KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    dismissHint();
    act();
  }, { signal });
  document.addEventListener("keydown", (event) => {
    if (event.target instanceof Element && event.target.closest("dialog")) return;
    const isWriting = event.target instanceof Element && event.target.matches("input,textarea,select");
    if (event.key === "/" && !isWriting) { event.preventDefault(); search.focus(); search.select(); }
    if (event.key !== "Escape" || (isWriting && event.target !== search)) return;
    const menus = [...openMenus()];
    for (const drop of menus) drop.open = false;
    const left = menus.find((drop) => drop.contains(event.target as Element));
    if (left) { left.querySelector("summary")?.focus(); return; }
    if (event.target === search || !found.hidden) { search.value = ""; look(); } else select(null);
    canvas.focus();
  }, { signal });
  document.addEventListener("pointerdown", (event) => {
    const target = event.target as Element;
    for (const drop of openMenus()) if (!drop.contains(target)) drop.open = false;
    if (!target.closest(".search")) closeFound();
  }, { signal });
}
