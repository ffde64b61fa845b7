// The page: who one is, where one is, and the view of it.
import "./app.css";
import { render, type JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { asFailure, Failure, get, logIn, logOut, resume } from "./api";
import { useKeptFocus } from "./focus";
import { listen, listenFrom, stopListening, useData, useLoss } from "./live";
import { Field, Problem } from "./parts";
import { Branches, RefList, useEveryBranch } from "./refs";
import { Rights, RightsKnown } from "./rights";
import { to, useRoute, type Route } from "./route";
import { type About, type AlertInfo, type BranchInfo, type Me } from "./types";
import { Served } from "./user";
import { AlertsView } from "./views/alerts";
import { CompareView } from "./views/compare";
import { DataView } from "./views/data";
import { GraphView } from "./views/graph";
import { LogView } from "./views/log";
import { MergeView } from "./views/merge";
import { PeopleView } from "./views/people";
import { ProvenanceView } from "./views/provenance";
import { RequestsView } from "./views/requests";
import { SchemasView } from "./views/schemas";
import { SqlView } from "./views/sql";
import { AdviceView, StorageView } from "./views/storage";
import { SyncsView } from "./views/syncs";

const VIEWS: Record<string, (given: { route: Route }) => JSX.Element> = {
  graph: GraphView, log: LogView, provenance: ProvenanceView, data: DataView, compare: CompareView, merge: MergeView,
  requests: RequestsView, syncs: SyncsView, alerts: AlertsView, schemas: SchemasView, sql: SqlView,
  storage: StorageView, advice: AdviceView, people: PeopleView,
};
const MENU: [view: string, words: string][] = [
  ["graph", "Graph"], ["data", "Data"], ["compare", "Compare"], ["requests", "Requests"], ["syncs", "Syncs"],
  ["alerts", "Alerts"], ["schemas", "Schemas"], ["sql", "SQL"], ["storage", "Storage"], ["people", "People"],
];

/** Views of the database as a whole, which are for who may read all of it. */
const OF_EVERYTHING = new Set(["storage"]);

/** Views that one comes to from another, which the menu marks then. */
const WITHIN: Record<string, string> = { merge: "compare", log: "graph", provenance: "graph", advice: "storage" };

const TITLES: Record<string, string> = {
  ...Object.fromEntries(MENU), merge: "Merge", provenance: "Where from", log: "Log", advice: "Advice",
};

/** Who is logged in, and to what. */
interface Session { about: About; me: Me }

function App({ about, me }: Session): JSX.Element {
  const route = useRoute(), loss = useLoss(), { data: branches } = useEveryBranch();
  // Commits change branches all the time, and rights hardly ever.
  const told = JSON.stringify(branches?.map(({ name, role, may }) => [name, role, may]));
  const rights = useMemo(() => new Rights(me, branches, about.read_only), [me, told, about]);
  const menu = MENU.filter(([view]) => !OF_EVERYTHING.has(view) || !rights.everywhere("reader"));
  const View = VIEWS[route.view];
  const alerts = useData("open alerts", (signal) => get<{ alerts: AlertInfo[] }>("/v1/alerts", { state: "open", limit: 100 }, signal), ["alert"]);
  const open = alerts.data?.alerts.length ?? 0;
  useEffect(() => {
    listenFrom(about.position);
    window.addEventListener("online", listen);
    return () => { window.removeEventListener("online", listen); stopListening(); };
  }, []);
  useKeptFocus();
  useEffect(() => {
    const words = TITLES[route.view];
    document.title = [words, about.name, "LivingDB"].filter(Boolean).join(" – ");
  }, [route.view]);
  return (
    <Served.Provider value={about}><Branches.Provider value={branches}><RightsKnown.Provider value={rights}>
      <a class="skip" href="#view" onClick={(event) => { event.preventDefault(); document.getElementById("view")?.focus(); }}>Skip to the view</a>
      <header class="top">
        <h1>LivingDB <span class="note" dir="auto" title={about.name}>{about.name}</span></h1>
        <nav aria-label="Views">{menu.map(([view, words]) => (
          <a key={view} href={to(view)} aria-current={view === route.view ? "page" : view === WITHIN[route.view] ? "true" : undefined}><span class="words" data-words={words}>{words}</span>{view === "alerts" && open > 0 ? <> <span class="badge">{open}</span></> : null}</a>))}
        </nav>
        <p class="who"><span dir="auto">{about.user}</span> {about.read_only && <span class="note" title={about.read_only}>read-only</span>} <button type="button" onClick={() => void logOut().then(() => location.reload())}>Log out</button></p>
      </header>
      {loss === "lost" && <p class="lost" role="alert">The connection to the server is lost; what you see may be old. It is tried again by itself.</p>}
      {loss === "ended" && <p class="lost" role="alert">You are not logged in any more: the session ended, or the server was started anew. What you see may be old. <button type="button" onClick={() => location.reload()}>Log in</button></p>}
      <RefList />
      <main id="view" tabIndex={-1}>
        {View ? <View key={route.view} route={route} /> : <Problem error={new Failure("not_found", `There is no view ${route.view}.`, 404)} />}
      </main>
      <p id="live" class="unseen" aria-live="polite" />
    </RightsKnown.Provider></Branches.Provider></Served.Provider>
  );
}

function Login({ error, onDone }: { error: Failure | null; onDone: () => void }): JSX.Element {
  const [token, setToken] = useState(""), [failure, setFailure] = useState(error);
  const enter = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await logIn(token.trim());
      onDone();
    } catch (problem) { setFailure(asFailure(problem)); }
  };
  return (
    <main class="login"><form onSubmit={(event) => void enter(event)}>
      <h1>LivingDB</h1>
      <p>Log in with your token: the one you were given, or the one that <code>livingdb serve</code> printed.</p>
      <Field label="Token" value={token} onChange={setToken} isSecret required />
      {failure && <Problem error={failure} />}
      <button type="submit" class="main">Log in</button>
    </form></main>
  );
}

const GIVEN = /[#&]token=([^&]+)/;

/** Begin anew where an address with a token is opened in a tab that has the page already. */
function beginAnew(): void {
  if (GIVEN.test(location.hash)) location.reload();
}

function Page(): JSX.Element {
  const [session, setSession] = useState<Session | null>(null), [error, setError] = useState<Failure | null>(null), [isAsked, setAsked] = useState(false);
  const load = async (): Promise<void> => {
    try {
      const given = GIVEN.exec(location.hash)?.[1];
      if (given) {
        history.replaceState(null, "", location.pathname);
        await logIn(decodeURIComponent(given));
      }
      const [told, me] = await Promise.all([get<About>("/v1/about"), get<Me>("/v1/me")]);
      // Who may not read the default branch begins with one that they may read.
      const mine = told.default_branch ? [] : (await get<{ branches: BranchInfo[] }>("/v1/branches", { limit: 1 })).branches;
      setSession({ about: { ...told, default_branch: told.default_branch ?? mine[0]?.name ?? null }, me });
      setError(null);
    } catch (failure) { setError(asFailure(failure)); }
    setAsked(true);
  };
  useEffect(() => {
    resume();
    void load();
    window.addEventListener("hashchange", beginAnew);
    return () => window.removeEventListener("hashchange", beginAnew);
  }, []);
  if (session) return <App {...session} />;
  if (!isAsked) return <p class="waiting" role="status">Loading…</p>;
  if (error && error.status !== 401) return <main class="login"><Problem error={error} retry={() => void load()} /></main>;
  return <Login error={null} onDone={() => void load()} />;
}

const place = document.getElementById("page");
if (place) render(<Page />, place);
