// What changes on the server, and whether it still answers.
import { useEffect, useRef, useState } from "preact/hooks";
import { asFailure, get, type Failure } from "./api";

type Kind = "commit" | "branch" | "tag" | "sync" | "alert" | "merge_request" | "job";
export const KINDS: Kind[] = ["commit", "branch", "tag", "sync", "alert", "merge_request", "job"];
type Listener = (kind: Kind | "back") => void;

const listeners = new Set<Listener>();
let source: EventSource | null = null;
/** Whether the server is heard: it is, it is not, or it does not know the session any more. */
export type Loss = "" | "lost" | "ended";

let loss: Loss = "", again = 0;
const lossListeners = new Set<(loss: Loss) => void>();
const AGAIN_MILLISECONDS = 2000;

function setLoss(now: Loss): void {
  if (now === loss) return;
  loss = now;
  for (const listener of lossListeners) listener(now);
  if (!now) for (const listener of listeners) listener("back");
}

/** A stream that is refused is over for the browser: it is begun anew, unless nobody is logged in any more. */
async function listenAgain(): Promise<void> {
  try {
    await get("/v1/about");
  } catch (error) {
    if (asFailure(error).status === 401) { setLoss("ended"); return; }
  }
  if (source) again = window.setTimeout(listen, AGAIN_MILLISECONDS);
}

/** Where the database was before the page asked for anything: what changed since is heard, too. */
let began = "";

/** Listen to the server until the page goes. */
export function listen(): void {
  stopListening();
  const stream = source = new EventSource(`/v1/events?after=${encodeURIComponent(began)}`);
  stream.onopen = () => setLoss("");
  stream.onerror = () => {
    setLoss("lost");
    if (stream.readyState === EventSource.CLOSED) void listenAgain();
  };
  for (const kind of KINDS)
    stream.addEventListener(kind, () => tellChanged(kind));
  // Branches that are gone are not named, and tags never are.
  stream.addEventListener("branches", () => tellChanged("branch"));
  stream.addEventListener("tags", () => tellChanged("tag"));
}

/** Listen from a position on. */
export function listenFrom(position: string): void {
  began = position;
  listen();
}

/** What changed, by the server's word or, where it tells nobody, by this page's own. */
export function tellChanged(kind: Kind): void {
  for (const listener of listeners) listener(kind);
}

export function stopListening(): void {
  window.clearTimeout(again);
  source?.close();
  source = null;
}

/** Whether the server is heard. */
export function useLoss(): Loss {
  const [now, set] = useState(loss);
  useEffect(() => {
    lossListeners.add(set);
    return () => { lossListeners.delete(set); };
  }, []);
  return now;
}

export interface Loaded<T> {
  data: T | null;
  error: Failure | null;
  isLoading: boolean;
  reload: () => void;
}

/** What was there is shown while something else of the same scope is asked for in its place, so that nobody loses what they are at. */
export function useKept<T>(of: Loaded<T>, scope: string): Loaded<T> & { isOld: boolean } {
  const last = useRef<{ data: T; scope: string } | null>(null);
  if (of.data !== null) last.current = { data: of.data, scope };
  const isOld = of.data === null && of.error === null && last.current?.scope === scope;
  return { ...of, data: isOld ? last.current?.data ?? null : of.data, isOld };
}

const WAIT_MILLISECONDS = 120;

/** What the server answers, asked again when something of these kinds changes. */
export function useData<T>(
  key: string, ask: (signal: AbortSignal) => Promise<T>, kinds: Kind[] = KINDS,
): Loaded<T> {
  const [state, setState] = useState<{ key: string; data: T | null; error: Failure | null; isLoading: boolean }>(
    { key, data: null, error: null, isLoading: true });
  const asked = useRef(ask);
  asked.current = ask;
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    setState((before) => before.key === key ? { ...before, isLoading: true } : { key, data: null, error: null, isLoading: true });
    asked.current(stop.signal).then(
      (data) => { if (!stop.signal.aborted) setState({ key, data, error: null, isLoading: false }); },
      (error: unknown) => {
        if (stop.signal.aborted) return;
        const failure = asFailure(error);
        setState((before) => ({ key, data: before.key === key ? before.data : null, error: failure, isLoading: false }));
      });
    return () => stop.abort();
  }, [key, turn]);
  useEffect(() => {
    let waiting = 0;
    const listener: Listener = (kind) => {
      if (kind !== "back" && !kinds.includes(kind)) return;
      window.clearTimeout(waiting);
      waiting = window.setTimeout(() => setTurn((now) => now + 1), WAIT_MILLISECONDS);
    };
    listeners.add(listener);
    return () => { listeners.delete(listener); window.clearTimeout(waiting); };
  }, [kinds.join()]);
  const current = state.key === key ? state : { data: null, error: null, isLoading: true };
  return { data: current.data, error: current.error, isLoading: current.isLoading, reload: () => setTurn((now) => now + 1) };
}
