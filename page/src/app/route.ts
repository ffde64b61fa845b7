// Where one is: the part of the address after `#`, so that every view can be linked to.
import { useEffect, useState } from "preact/hooks";

export interface Route {
  view: string;
  given: Record<string, string>;
}

export function readRoute(): Route {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: path || "graph", given: Object.fromEntries(new URLSearchParams(query)) };
}

/** The address of a view. */
export function to(view: string, given: Record<string, string | number | null | undefined> = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(given))
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  return `#/${view}${query.size ? `?${query}` : ""}`;
}

export function go(view: string, given: Record<string, string | number | null | undefined> = {}): void {
  location.hash = to(view, given);
}

/** Let the address say what is looked at, so that it leads back to it; nobody goes anywhere. */
export function remember(view: string, given: Record<string, string | number | null | undefined>): void {
  history.replaceState(null, "", to(view, given));
}

/** Where finished work leads to; who went elsewhere meanwhile stays there. */
export async function goAfter<Made>(work: Promise<Made>, view: string, given: (made: Made) => Record<string, string | number>): Promise<void> {
  const here = location.hash;
  const made = await work;
  if (location.hash === here) go(view, given(made));
}

export function useRoute(): Route {
  const [route, set] = useState(readRoute);
  useEffect(() => {
    const changed = (): void => set(readRoute());
    window.addEventListener("hashchange", changed);
    changed();  // Somebody may have been quicker than the listener.
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return route;
}
