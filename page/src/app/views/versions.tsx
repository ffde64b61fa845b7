// Versions of a derived object: what each was made from, and a model's metrics side by side.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { get, type Value } from "../api";
import { useData } from "../live";
import { Cell, Shown, SnapshotLink, Time } from "../parts";
import { to } from "../route";
import { type Snapshot } from "../types";
import { plural, reasonWords, short, text } from "../words";

const MOST = 50, BESIDE = 3;

/** The versions of a view or model, newest first; those of a model that are ticked stand side by side. */
export function Versions({ branch }: { branch: string }): JSX.Element {
  const found = useData(`versions ${branch}`, (signal) => get<{ snapshots: Snapshot[] }>("/v1/snapshots", { ref: branch, limit: MOST }, signal), ["commit"]);
  const [ticked, setTicked] = useState<Set<string> | null>(null);
  return (
    <><h3>Versions</h3>
      <Shown of={found}>{({ snapshots }) => {
        const measured = snapshots.filter((one) => Object.keys(one.metrics).length > 0);
        const chosen = ticked ?? new Set(measured.slice(0, BESIDE).map((one) => one.id));
        const tick = (id: string): void => {
          const next = new Set(chosen);
          if (!next.delete(id)) next.add(id);
          setTicked(next);
        };
        const beside = measured.filter((one) => chosen.has(one.id));
        return (
          <>
            {measured.length > 0 && <Metrics versions={beside} />}
            <ol class="trail">{snapshots.map((one, at) => (
              <li key={one.id}>
                {measured.length > 1 && measured.includes(one) && <label class="tick"><input type="checkbox" checked={chosen.has(one.id)} aria-label={`Show the metrics of ${short(one.id)}`} onChange={() => tick(one.id)} /></label>}
                <SnapshotLink id={one.id} /> {one.message || one.operation} · <Time of={one.time} />
                {one.refresh.strategy && <p class="note">{refreshWords(one)}</p>}
                <p class="note">from {Object.entries(one.sources).map(([name, id]) => `${name} ${id.slice(0, 7)}`).join(", ")}{" "}
                  {at + 1 < snapshots.length && <a class="button" href={to("compare", { before: snapshots[at + 1].id, after: one.id })}>What changed</a>}</p></li>))}</ol>
          </>
        );
      }}</Shown></>
  );
}

/** How a version was made from the one before, and why so. */
function refreshWords({ refresh }: Snapshot): string {
  const rows = typeof refresh.rows === "number" ? ` · ${plural(refresh.rows, "row")} written` : "";
  return `${text(refresh.strategy)} refresh${refresh.reason ? `, since ${reasonWords(text(refresh.reason))}` : ""}${rows}${refresh.engine ? ` · ${text(refresh.engine)} engine` : ""}`;
}

/** How a metric stands to what it was in the version before: told in words, not by colour alone. */
function difference(before: Value | undefined, now: Value | undefined): string {
  if (before === undefined) return "new";
  if (now === undefined) return "gone";
  if (typeof before !== "number" || typeof now !== "number") return "changed";
  const step = now - before;
  return `${step > 0 ? "+" : "−"}${Number(Math.abs(step).toPrecision(4))}`;
}

/** Metrics in rows and versions in columns, newest first; each is held against the one to its right. */
function Metrics({ versions }: { versions: Snapshot[] }): JSX.Element {
  if (versions.length === 0) return <p class="note">Tick versions below to see their metrics side by side.</p>;
  const names = [...new Set(versions.flatMap((one) => Object.keys(one.metrics)))];
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Metrics of versions">
      <table class="rows metrics"><caption class="note">{versions.length > 1 ? "Each version against the one to its right; what differs is marked." : "Tick more versions below to compare."}</caption>
        <thead><tr><th scope="col">Metric</th>{versions.map((one) => <th scope="col" key={one.id}><SnapshotLink id={one.id} /><small><Time of={one.time} /></small></th>)}</tr></thead>
        <tbody>
          {names.map((name) => (
            <tr key={name}><th scope="row" dir="auto">{name}</th>{versions.map((one, at) => {
              const now = one.metrics[name], older = versions[at + 1], before = older?.metrics[name];
              const differs = older !== undefined && text(now ?? null) !== text(before ?? null);
              return <td key={one.id} class={differs ? "number changed" : "number"}>{now === undefined ? "—" : <Cell value={now} />}{differs && <small> {difference(before, now)}</small>}</td>;
            })}</tr>))}
          <tr><th scope="row">Made from</th>{versions.map((one, at) => (
            <td key={one.id}>{Object.entries(one.sources).map(([name, id]) => <Source key={name} name={name} id={id} before={versions[at + 1]?.sources[name]} />)}</td>))}</tr>
        </tbody></table>
    </div>
  );
}

function Source({ name, id, before }: { name: string; id: string; before: string | undefined }): JSX.Element {
  return (
    <div><span dir="auto">{name}</span> <SnapshotLink id={id} />{" "}
      {before === id ? <small class="note">the same</small>
        : before && <a href={to("compare", { before, after: id })} aria-label={`Compare ${name} ${short(before)} with ${short(id)}`}>compare</a>}</div>
  );
}
