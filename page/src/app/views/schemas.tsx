// Schemas: the versions that are alive, what each application sees, and a change tried first.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { get, post, Failure } from "../api";
import { useData } from "../live";
import { Act, Choice, Field, Heading, Nothing, Problem, Shown, State } from "../parts";
import { useBranches } from "../refs";
import { go, to, type Route } from "../route";
import { type Explanation, type SyncInfo, type TableInfo } from "../types";

export function SchemasView({ route }: { route: Route }): JSX.Element {
  const branch = route.given.branch ?? "main";
  const branches = useBranches();
  const syncs = useData("schema syncs", (signal) => get<{ syncs: SyncInfo[] }>("/v1/syncs", {}, signal), ["sync", "branch"]);
  const chained = (syncs.data?.syncs ?? []).filter((sync) => sync.kind === "schema_change");
  const tables = useData(`schema ${branch}`, async (signal) => {
    const { tables: names } = await get<{ tables: string[] }>("/v1/tables", { ref: branch }, signal);
    return Promise.all(names.map((table) => get<TableInfo>("/v1/table", { table, ref: branch }, signal)));
  }, ["commit", "branch"]);
  return (
    <section class="page">
      <Heading title="Schemas" note="Versions that are alive, and what an application of each sees">
        <Choice label="As seen on" value={branch} options={branches.map((one) => one.name)} onChange={(name) => go("schemas", { branch: name })} />
      </Heading>
      {chained.length > 0 && <><h3>Versions in step</h3>
        <ul class="plainlist">{chained.map((sync) => (
          <li key={sync.name}><a href={to("schemas", { branch: sync.sources[0] })}>{sync.sources[0]}</a> {sync.direction === "both" ? "↔" : sync.direction === "forward" ? "→" : "←"} <a href={to("schemas", { branch: sync.target })}>{sync.target}</a> <State of={sync.state} /> <a class="note" href={to("syncs", { name: sync.name })}>its sync</a></li>))}</ul></>}
      <Shown of={tables}>{(found) => found.length ? (
        <div class="schemas">{found.map((table) => (
          <details class="table" key={table.name} open={found.length < 6}><summary><b dir="auto">{table.name}</b><span>{table.columns.length} columns · {table.row_count.toLocaleString("en")} rows</span></summary>
            <ul>{table.columns.map((column) => <li key={column.name}><span dir="auto">{column.name} {table.key.includes(column.name) && <small class="note">key</small>}</span><span>{column.type}{column.nullable ? "" : " not null"}</span></li>)}</ul></details>))}</div>
      ) : <Nothing><p>No tables yet. <a href={to("sql", { branch })}>Create one</a>.</p></Nothing>}</Shown>
      <Try branch={branch} />
    </section>
  );
}

function Try({ branch }: { branch: string }): JSX.Element {
  const [change, setChange] = useState(""), [told, setTold] = useState<Explanation | null>(null), [error, setError] = useState<Failure | null>(null);
  const [sync, setSync] = useState("none"), [name, setName] = useState("");
  const explain = async (): Promise<void> => {
    setError(null);
    setTold(null);
    try {
      const found = await post<Explanation>("/v1/schema/explain", { branch, changes: [change] });
      setTold(found);
      setSync(found.legal.includes("both") ? "both" : found.legal[0] ?? "none");
    } catch (failure) { if (failure instanceof Failure) setError(failure); else throw failure; }
  };
  const apply = (): Promise<unknown> => post("/v1/schema/changes", {
    branch, changes: [change], sync, ...(sync === "forward" ? { to: name } : sync === "none" ? {} : { keep: name }),
  });
  return (
    <div class="try">
      <h3>Try a change</h3>
      <form onSubmit={(event) => { event.preventDefault(); void explain(); }}>
        <label class="field"><span>ALTER TABLE statement</span><textarea rows={3} value={change} spellcheck={false} placeholder="ALTER TABLE orders ADD COLUMN note STRING" onInput={(event) => setChange(event.currentTarget.value)} /></label>
        <button type="submit">What would it do?</button>
      </form>
      {error && <Problem error={error} />}
      {told && (
        <div role="status">
          <p class="fine">Old applications can be kept in step: {told.legal.filter((one) => one !== "none").join(", ") || "in no direction"}</p>
          {Object.entries(told.illegal).map(([direction, why]) => <p key={direction} class="bad"><b>{direction}</b>: {why}</p>)}
          {told.scans.length > 0 && <p class="note">It reads every row of {told.scans.join(", ")}.</p>}
          {told.failures.map((one) => <p key={one} class="bad">{one}</p>)}
          <div class="bar"><Choice label="Sync direction" value={sync} options={["none", ...told.legal.filter((one) => one !== "none")]} onChange={setSync} />
            {sync !== "none" && <Field label={sync === "forward" ? "Name of the new version" : "Name under which the old version stays"} value={name} onChange={setName} required />}
            <Act words={`Change ${branch}`} isMain act={apply} onDone={() => { setTold(null); setChange(""); }} /></div>
        </div>)}
    </div>
  );
}
