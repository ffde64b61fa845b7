// Watches: what raises alerts besides the syncs, and who is told.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { get, post, remove } from "../api";
import { useData } from "../live";
import { Choice, Dialog, Field, NotOffered, Nothing, Shown, State, Time, Wide } from "../parts";
import { useRights } from "../rights";
import { type WatchInfo } from "../types";

const EVENTS: Record<string, string> = {
  "a schema changes": "schema_change", "something is merged": "merge", "a sync is behind": "lag", "a sync fails": "failures", "the database grows": "growth",
};
const SEVERITIES = ["info", "warning", "error", "critical"];

export function Watches(): JSX.Element {
  const found = useData("watches", (signal) => get<{ watches: WatchInfo[] }>("/v1/watches", {}, signal), ["alert"]);
  const [isNew, setNew] = useState(false), [gone, setGone] = useState<string | null>(null), toWatch = useRights().everywhere("maintainer");
  return (
    <>
      <h3>Watches</h3>
      {toWatch ? <NotOffered of={[["Watch something", toWatch]]} /> : <p><button type="button" onClick={() => setNew(true)}>Watch something…</button></p>}
      <Shown of={found}>{({ watches }) => watches.length ? (
        <Wide label="Watches"><table class="summary stack"><thead><tr><th scope="col">Watch</th><th scope="col">Raises an alert when</th><th scope="col">Severity</th><th scope="col">Since</th><th scope="col">Forget</th></tr></thead>
          <tbody>{watches.map((one) => (
            <tr key={one.name}><th scope="row" dir="auto">{one.name}</th><td data-of="when">{one.event.replaceAll("_", " ")}</td><td data-of="severity"><State of={one.severity} /></td>
              <td data-of="since"><Time of={one.time} /></td><td data-of="forget">{toWatch ? "—" : <button type="button" aria-label={`Forget ${one.name}…`} onClick={() => setGone(one.name)}>Forget…</button>}</td></tr>))}</tbody></table></Wide>
      ) : <Nothing><p>Nothing is watched besides the syncs, which raise alerts by their own conditions.</p></Nothing>}</Shown>
      {isNew && <NewWatch onClose={() => setNew(false)} onDone={found.reload} />}
      {gone !== null && <Dialog title="Forget a watch" action="Forget" isDanger onClose={() => setGone(null)} onDone={async () => { await remove("/v1/watches", { name: gone }); found.reload(); }}>
        <p><b dir="auto">{gone}</b> raises no more alerts. Those it raised stay.</p></Dialog>}
    </>
  );
}

function NewWatch({ onClose, onDone }: { onClose: () => void; onDone: () => void }): JSX.Element {
  const [name, setName] = useState(""), [words, setWords] = useState(Object.keys(EVENTS)[0]), [severity, setSeverity] = useState("warning");
  const [where, setWhere] = useState(""), [table, setTable] = useState(""), [limit, setLimit] = useState(""), [per, setPer] = useState("1 day"), [told, setTold] = useState("");
  const event = EVENTS[words];
  const on = (): Record<string, unknown> => {
    if (event === "schema_change") return { event, table: table || null, branch: where || null };
    if (event === "merge") return { event, into: where || null };
    if (event === "lag") return { event, sync: where, limit };
    if (event === "failures") return { event, sync: where, times: limit ? Number(limit) : 3 };
    return { event, limit, per };
  };
  const make = async (): Promise<void> => {
    const alerts = told.split(/\s+/).filter(Boolean);
    await post("/v1/watches", { name, on: on(), severity, alerts });
    onDone();
  };
  return (
    <Dialog title="Watch something" action="Watch" onClose={onClose} onDone={make}>
      <Field label="Name of the watch" value={name} onChange={setName} required />
      <Choice label="Raise an alert when" value={words} options={Object.keys(EVENTS)} onChange={setWords} />
      {event === "schema_change" && <><Field label="Table" value={table} onChange={setTable} placeholder="any" /><Field label="Branch" value={where} onChange={setWhere} placeholder="any" list="refs" /></>}
      {event === "merge" && <Field label="Into branch" value={where} onChange={setWhere} placeholder="any" list="refs" />}
      {(event === "lag" || event === "failures") && <Field label="Sync" value={where} onChange={setWhere} required placeholder="totals" />}
      {event === "lag" && <Field label="For longer than" value={limit} onChange={setLimit} required placeholder="10 minutes" />}
      {event === "failures" && <Field label="Times in a row" value={limit} onChange={setLimit} placeholder="3" />}
      {event === "growth" && <><Field label="By more than" value={limit} onChange={setLimit} required placeholder="500 MB, or 20%" /><Field label="Within" value={per} onChange={setPer} required /></>}
      <Choice label="Severity" value={severity} options={SEVERITIES} onChange={setSeverity} />
      <Field label="Who is told" value={told} onChange={setTold} placeholder="webhook:https://…" isWide />
      <p class="note">Alerts are listed here in any case. A webhook has to be trusted by who runs the server.</p>
    </Dialog>
  );
}
