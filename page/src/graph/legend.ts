// What the marks of the picture mean.
import { el, svg } from "./elements";
import { stage } from "./view";

export function fillLegend(): void {
  const c = "var(--soft)", full = { fill: c, stroke: c }, hollow = { fill: "none", stroke: c, "stroke-width": 2 };
  const line = (given: object): SVGElement => svg("line", { x1: 0, x2: 36, y1: 10, y2: 10, stroke: c, "stroke-width": 2, ...given });
  const box = (state: string): SVGElement => svg("rect", { x: 4, y: 4, width: 28, height: 12, rx: 3, fill: `var(--${state})`, "fill-opacity": 0.25, stroke: `var(--${state})` });
  const rows: [mark: SVGElement, text: string][] = [
    [svg("circle", { cx: 18, cy: 10, r: 6, ...full }), "transaction"],
    [svg("path", { d: "M11 10l7-7 7 7-7 7z", ...full }), "merge"],
    [svg("rect", { x: 12, y: 4, width: 12, height: 12, ...full }), "schema change"],
    [svg("path", { d: "M11 16l7-13 7 13z", ...full }), "derived object"],
    [svg("circle", { cx: 18, cy: 10, r: 6, ...hollow }), "propagated"],
    [svg("circle", { cx: 18, cy: 10, r: 4, ...hollow }), "start of a branch"],
    [svg("circle", { cx: 18, cy: 10, r: 9, fill: c, "fill-opacity": 0.3 }), "head of a branch"],
    [svg("rect", { x: 3, y: 3, width: 30, height: 14, rx: 7, fill: c, "fill-opacity": 0.2, stroke: c }), "a run of snapshots; click to open it"],
    [line({}), "follows"],
    [svg("path", { d: "M0 7h26v-4l10 7-10 7v-4H0z", fill: "none", stroke: c, "stroke-width": 1.4 }), "schema change, clone, derivation; shaded where a sync began"],
    [line({ "stroke-dasharray": "5 4" }), "propagation"],
    [box("active"), "sync active"], [box("held"), "sync held"], [box("detached"), "sync detached"], [box("error"), "sync in error"],
  ];
  stage.legend.replaceChildren(...rows.map(([mark, text]) =>
    el("div", { class: "key" }, svg("svg", { width: 36, height: 20, "aria-hidden": "true" }, mark), text)));
}
