// Syncs, views and models: what follows what, how fresh it is, and what stopped.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { get, patch, post, type Row } from "../api";
import { useData } from "../live";
import { Act, Field, Heading, NotOffered, Nothing, RowTable, Shown, State, Time, Wide } from "../parts";
import { useRights } from "../rights";
import { to, type Route } from "../route";
import { actionsOf, refusedOf, SyncDialog, wordsOf, type SyncAction } from "../sync_actions";
import { type SyncDetails, type SyncInfo } from "../types";
import { useUser } from "../user";
import { duration, lagWords, reasonWords, text } from "../words";
import { SyncGuards } from "./sync_guards";
import { Versions } from "./versions";

const WHENS = ["immediate", "deferred", "on demand", "every 10 minutes", "lag 10 minutes", "downstream"];
const NEW_VIEW = to("sql", { sql: "CREATE MATERIALIZED VIEW totals WITH (when = 'immediate') AS\nSELECT " });
const ARROWS: Record<string, string> = { forward: "→", reverse: "←", both: "↔" };
const MAKES: Record<string, string> = { view: "view", function: "view by a function", model: "model", clone: "clone", version: "schema version" };
const makes = (sync: SyncInfo): string => MAKES[sync.makes] ?? sync.makes;

export function SyncsView({ route }: { route: Route }): JSX.Element {
  const [words, setWords] = useState(""), rights = useRights();
  const toMake = rights.someName("maintainer"), toRun = rights.everywhere("maintainer");
  const found = useData("syncs", (signal) => get<{ syncs: SyncInfo[] }>("/v1/syncs", {}, signal), ["sync", "commit"]);
  if (route.given.name) return <SyncView key={route.given.name} name={route.given.name} />;
  const wanted = words.toLowerCase();
  return (
    <section class="page">
      <Heading title="Syncs and views" note="What depends on what">
        <Field label="Find" value={words} onChange={setWords} placeholder="name or state" />
        {!toMake && <a class="button" href={NEW_VIEW}>New view</a>}
        {!toRun && <Act words="Run all that is due" act={() => post("/v1/propagate")} />}
      </Heading>
      <NotOffered of={[["New view", toMake], ["Run all that is due", toRun]]} />
      <Shown of={found}>{({ syncs }) => {
        const shown = syncs.filter((sync) => `${sync.name} ${sync.state} ${makes(sync)} ${sync.when}`.toLowerCase().includes(wanted));
        shown.sort((a, b) => Number(a.state === "active") - Number(b.state === "active") || a.name.localeCompare(b.name));
        return shown.length ? (
          <Wide label="Syncs"><table class="summary stack"><thead><tr><th scope="col">From</th><th scope="col">To</th><th scope="col">Kind</th><th scope="col">When</th><th scope="col">State</th><th scope="col">Freshness</th></tr></thead>
            <tbody>{shown.map((sync) => (
              <tr key={sync.name}><td data-of="from" dir="auto">{sync.sources.join(", ")} {ARROWS[sync.direction]}</td>
                <th scope="row"><a href={to("syncs", { name: sync.name })} dir="auto">{sync.target}</a></th>
                <td data-of="kind">{makes(sync)}</td><td data-of="when">{sync.when}</td><td data-of="state"><State of={sync.state} /></td><td data-of="freshness">{lagWords(sync)}</td></tr>))}</tbody></table></Wide>
        ) : <Nothing><p>{syncs.length ? "None is like that." : toMake ? "Nothing follows anything yet." : <>Nothing follows anything yet: <a href={NEW_VIEW}>derive a view</a>, or <a href={to("schemas")}>evolve a schema with a sync</a>.</>}</p></Nothing>;
      }}</Shown>
    </section>
  );
}

function SyncView({ name }: { name: string }): JSX.Element {
  const found = useData(`sync ${name}`, (signal) => get<SyncDetails>("/v1/sync", { name }, signal), ["sync", "commit"]);
  const others = useData("syncs", (signal) => get<{ syncs: SyncInfo[] }>("/v1/syncs", {}, signal), ["sync"]);
  const [typed, setTyped] = useState<string | null>(null), [action, setAction] = useState<SyncAction | null>(null);
  const user = useUser(), rights = useRights();
  return (
    <section class="page">
      <Shown of={found}>{(sync) => { const actions = actionsOf(sync), mine = actions.filter((one) => !rights.sync(sync, one)), toAlter = rights.sync(sync, "alter"); return (
        <>
          <Heading title={`${sync.sources.join(", ")} ${ARROWS[sync.direction]} ${sync.target}`}><a class="button" href={to("syncs")}>All syncs</a>
            <a class="button" href={to("data", { ref: sync.target })}>Its rows</a>
            <a class="button" href={to("provenance", { ref: sync.target })}>Where from</a></Heading>
          <p><State of={sync.state} /> {makes(sync)} · {sync.when} · {lagWords(sync)}</p>
          {sync.reason && <p class="bad" dir="auto">{sync.reason}</p>}
          {mine.length > 0 && <div class="bar" role="group" aria-label="What can be done about it">{mine.map((one, at) => (
            <button type="button" key={one} class={at === 0 && sync.state !== "active" ? "main" : undefined} onClick={() => setAction(one)}>{wordsOf(one)}…</button>))}
          </div>}
          <NotOffered of={[...refusedOf(sync, actions, rights), ["Change when it runs", toAlter], ["Change what guards it", toAlter]]} />
          {action && <SyncDialog sync={sync} action={action} user={user} onClose={() => setAction(null)} />}
          {!toAlter && <form class="bar" onSubmit={(event) => { event.preventDefault(); }}>
            <Field label="When it runs" value={typed ?? sync.when} onChange={setTyped} list="whens" />
            <datalist id="whens">{WHENS.map((one) => <option value={one} key={one} />)}</datalist>
            {typed !== null && typed !== sync.when && <Act words="Change" act={() => patch("/v1/sync", { name, when: typed })} onDone={() => setTyped(null)} />}
          </form>}
          <Around of={sync} all={others.data?.syncs ?? []} />
          {sync.definition && <><h3>{sync.makes === "view" ? "Its query" : sync.makes === "clone" || sync.makes === "version" ? "What is different in it" : "Its function"}</h3><pre dir="auto">{sync.definition}</pre></>}
          <h3>What it does</h3><pre dir="auto">{sync.explanation}</pre>
          <SyncGuards of={sync} />
          <h3>Runs</h3>
          <Runs of={sync} />
          <h3>Trail</h3>
          {sync.trail.length === 0 && <p class="note">It was never stopped.</p>}
          <ol class="trail">{sync.trail.map((one, at) => <Entry key={at} of={one} />)}</ol>
          {sync.kind === "derive" && <Versions branch={sync.target} />}
        </>
      ); }}</Shown>
    </section>
  );
}

/** What it follows, and what follows it in turn. */
function Around({ of, all }: { of: SyncDetails; all: SyncInfo[] }): JSX.Element {
  const before = all.filter((one) => one.name !== of.name && of.sources.includes(one.target)), after = all.filter((one) => one.name !== of.name && one.sources.includes(of.target));
  const list = (syncs: SyncInfo[]): JSX.Element => (
    <ul class="plainlist">{syncs.map((one) => <li key={one.name}><a href={to("syncs", { name: one.name })} dir="auto">{one.sources.join(", ")} {ARROWS[one.direction]} {one.target}</a> <State of={one.state} /> <span class="note">{makes(one)} · {one.when} · {lagWords(one)}</span></li>)}</ul>);
  return (
    <>
      <h3>Depends on</h3>
      <ul class="plainlist">{of.sources.map((name) => <li key={name}><a href={to("data", { ref: name })} dir="auto">{name}</a></li>)}</ul>{before.length > 0 && list(before)}
      <h3>What depends on it</h3>
      {after.length ? list(after) : <p class="note">Nothing else follows {of.target}.</p>}
    </>
  );
}

/** Its own runs; what an immediate sync does is part of its source's transactions. */
function Runs({ of }: { of: SyncDetails }): JSX.Element {
  if (!of.runs.length) return <p class="note">{of.when === "immediate" ? "None of its own: it runs inside each transaction of its source; its versions tell how." : "None yet."}</p>;
  const rows = of.runs.map(({ time, seconds, ...rest }) => ({ time, took: duration(seconds === null ? null : Number(seconds)), ...rest }));
  return <RowTable label="Runs" columns={Object.keys(rows[0]).map((name) => ({ name, type: "", nullable: true }))} rows={rows}
    shown={(row, column) => column === "time" ? <Time of={text(row.time)} /> : column === "reason" && row.reason ? <span class="some" title={text(row.reason)}>{reasonWords(text(row.reason))}</span> : null} />;
}

function Entry({ of }: { of: Row }): JSX.Element {
  return <li><State of={text(of.state)} /> by {text(of.by)} · <Time of={text(of.time)} /><p dir="auto">{text(of.reason)}</p></li>;
}
