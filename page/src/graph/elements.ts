// Elements made in one call.
export type Child = globalThis.Node | string | null | undefined;
type Given = Record<string, unknown> | null;

/** An element with attributes, listeners (`on…`) and children. */
export function el(tag: string, given: Given, ...children: Child[]): HTMLElement {
  const made = document.createElement(tag);
  give(made, given);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** The same of a drawing. */
export function svg(tag: string, given: Given, ...children: globalThis.Node[]): SVGElement {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  give(made, given);
  made.append(...children);
  return made;
}

function give(made: HTMLElement | SVGElement, given: Given): void {
  for (const [name, value] of Object.entries(given ?? {}))
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value as EventListener);
    else if (name === "style") Object.assign(made.style, value);
    else made.setAttribute(name, String(value));
}

/** A text of somebody else's, in whatever direction it runs. */
export const said = (text: unknown, tag = "span"): HTMLElement => el(tag, { dir: "auto" }, String(text));

/** A number for people. */
export const count = (number: number): string => number.toLocaleString("en");
