// Schemas: the versions that are alive, what each application sees, and a change tried first.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { asFailure, Failure, get, post } from "../api";
import { useData } from "../live";
import { Act, Choice, Field, Heading, NotOffered, Nothing, Problem, Shown, SnapshotLink, State, Wide } from "../parts";
import { useBranches } from "../refs";
import { useRights } from "../rights";
import { go, to, type Route } from "../route";
import { type Explanation, type Snapshot, type SqlAnswer, type SyncInfo, type TableInfo } from "../types";
import { useDefaultBranch } from "../user";
import { isNumber, text } from "../words";
import { quoted } from "./edits";
import { Retire } from "./retire";

export function SchemasView({ route }: { route: Route }): JSX.Element {
  const main = useDefaultBranch(), branch = route.given.branch ?? main;
  const branches = useBranches();
  const syncs = useData("schema syncs", (signal) => get<{ syncs: SyncInfo[] }>("/v1/syncs", {}, signal), ["sync", "branch"]);
  const versions = [...new Set((syncs.data?.syncs ?? []).filter((sync) => sync.kind === "schema_change" && sync.makes === "version").flatMap((sync) => [...sync.sources, sync.target]))];
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
          <li key={sync.name}><a href={to("schemas", { branch: sync.sources[0] })}>{sync.sources[0]}</a> {sync.direction === "both" ? "↔" : sync.direction === "forward" ? "→" : "←"} <a href={to("schemas", { branch: sync.target })}>{sync.target}</a> <State of={sync.state} /> <a class="note" href={to("syncs", { name: sync.name })}>its sync</a></li>))}</ul>
        <Versions branches={[...new Set(chained.flatMap((sync) => [...sync.sources, sync.target]))]} />
        <Retire versions={versions.filter((name) => name !== main)} /></>}
      <Shown of={tables}>{(found) => found.length ? (
        <><h3>What an application of {branch} sees</h3><div class="schemas">{found.map((table) => (
          <details class="table" key={table.name} open={found.length < 6}><summary><b dir="auto">{table.name}</b><span>{table.columns.length} columns · {table.row_count.toLocaleString("en")} rows</span></summary>
            <ul>{table.columns.map((column) => <li key={column.name}><span dir="auto">{column.name} {table.key.includes(column.name) && <small class="note">key</small>}</span><span>{column.type}{column.nullable ? "" : " not null"}</span></li>)}</ul></details>))}</div></>
      ) : <Nothing><p>No tables yet. <a href={to("sql", { branch })}>Create one</a>.</p></Nothing>}</Shown>
      <Try key={branch} branch={branch} tables={tables.data ?? []} />
    </section>
  );
}

const DIRECTIONS: Record<string, string> = {
  none: "no old version stays", both: "each side sees what the other writes", forward: "the new version sees what the old one writes", reverse: "the old version sees what the new one writes",
};
const columnsOf = (branches: string[]): string =>
  `SELECT table_schema, table_name, column_name, data_type FROM information_schema.columns WHERE table_schema IN (${branches.map(() => "?").join(", ")}) ORDER BY table_name, ordinal_position`;

/** What an application of each version sees, where versions differ. */
function Versions({ branches }: { branches: string[] }): JSX.Element {
  const found = useData(`versions ${branches.join()}`, async (signal) => {
    const { rows } = await post<SqlAnswer>("/v1/sql", { sql: columnsOf(branches), parameters: branches, branch: branches[0] }, signal);
    return branches.map((branch) => new Map(rows.filter((row) => row.table_schema === branch)
      .map((row): [string, string] => [`${text(row.table_name)}.${text(row.column_name)}`, text(row.data_type)])));
  }, ["commit", "branch"]);
  return (
    <Shown of={found}>{(sides) => {
      const names = [...new Set(sides.flatMap((side) => [...side.keys()]))].filter((name) => new Set(sides.map((side) => side.get(name))).size > 1);
      if (!names.length) return <p class="note">All of them see the same columns.</p>;
      return (
        <Wide label="What each version sees"><table class="summary sides"><caption class="note">Columns that not all versions see alike; the others are the same.</caption>
          <thead><tr><th scope="col">Column</th>{branches.map((branch) => <th scope="col" key={branch} dir="auto">{branch}</th>)}</tr></thead>
          <tbody>{names.map((name) => <tr key={name}><th scope="row" dir="auto">{name}</th>{sides.map((side, at) => <td key={branches[at]}>{side.get(name) ?? <span class="note">not there</span>}</td>)}</tr>)}</tbody></table></Wide>
      );
    }}</Shown>
  );
}

/** Changes that could be tried, of a table that is there. */
function examples(table: TableInfo | undefined): [words: string, statement: string][] {
  if (!table) return [];
  const name = quoted(table.name), column = table.columns.find((one) => !table.key.includes(one.name));
  const added: [string, string] = ["Add a column", `ALTER TABLE ${name} ADD COLUMN note STRING`];
  if (!column) return [added];
  const of = quoted(column.name), numeric = table.columns.find((one) => !table.key.includes(one.name) && isNumber(one.type));
  const typed: [string, string][] = numeric ? [["Change a type", `ALTER TABLE ${name} ALTER COLUMN ${quoted(numeric.name)} TYPE STRING`]] : [];
  return [added, ["Rename one", `ALTER TABLE ${name} RENAME COLUMN ${of} TO ${quoted(`${column.name}_2`)}`],
    ["Drop one", `ALTER TABLE ${name} DROP COLUMN ${of}`], ...typed];
}

function Try({ branch, tables }: { branch: string; tables: TableInfo[] }): JSX.Element {
  const [change, setChange] = useState(""), [told, setTold] = useState<Explanation | null>(null), [error, setError] = useState<Failure | null>(null);
  const [sync, setSync] = useState("none"), [name, setName] = useState("");
  const explain = async (): Promise<void> => {
    setError(null);
    setMade(null);
    setTold(null);
    try {
      const found = await post<Explanation>("/v1/schema/explain", { branch, changes: [change] });
      setTold(found);
      setSync(found.legal.includes("both") ? "both" : found.legal[0] ?? "none");
    } catch (failure) { setError(asFailure(failure)); }
  };
  const [made, setMade] = useState<Snapshot | null>(null), toChange = useRights().on(branch, "change_schema");
  const apply = async (): Promise<void> => {
    if (sync !== "none" && !name.trim())
      throw new Failure("invalid_name", sync === "forward" ? "Type a name for the new version first." : "Type a name under which the old version stays first, or choose no sync.", 422);
    setMade(await post<Snapshot>("/v1/schema/changes", {
      branch, changes: [change], sync, ...(sync === "forward" ? { to: name } : sync === "none" ? {} : { keep: name }),
    }));
  };
  return (
    <div class="try">
      <h3>Try a change</h3>
      <form onSubmit={(event) => { event.preventDefault(); void explain(); }}>
        <label class="field"><span>ALTER TABLE statement</span><textarea rows={3} value={change} spellcheck={false} placeholder="ALTER TABLE orders ADD COLUMN note STRING" onInput={(event) => { setTold(null); setChange(event.currentTarget.value); }} /></label>
        {!change && <p class="row">{examples(tables[0]).map(([words, statement]) => <button type="button" key={words} onClick={() => { setTold(null); setChange(statement); }}>{words}</button>)}</p>}
        <button type="submit" disabled={!change.trim()}>What would it do?</button>
      </form>
      {error && <Problem error={error} />}
      {made && <p class="fine" role="status">Done, in <SnapshotLink id={made.id} />.</p>}
      {told && (
        <div role="status">
          <p class="fine">Old applications can be kept in step: {told.legal.filter((one) => one !== "none").map((one) => `${one} (${DIRECTIONS[one] ?? one})`).join(", ") || "in no direction"}</p>
          {Object.entries(told.illegal).map(([direction, why]) => <p key={direction} class="bad"><b>{direction}</b>: {why}</p>)}
          {told.scans.length > 0 && <p class="note">It reads every row of {told.scans.join(", ")}.</p>}
          {told.failures.map((one) => <p key={one} class="bad">{one}</p>)}
          {toChange ? <NotOffered of={[[`Change ${branch}`, toChange]]} /> : <div class="bar"><Choice label="Sync direction" value={sync} options={["none", ...told.legal.filter((one) => one !== "none")].map((one): [string, string] => [one, `${one}: ${DIRECTIONS[one] ?? one}`])} onChange={setSync} />
            {sync !== "none" && <Field label={sync === "forward" ? "Name of the new version" : "Name under which the old version stays"} value={name} onChange={setName} required />}
            <Act words={`Change ${branch}`} isMain act={apply} onDone={() => { setTold(null); setChange(""); }} /></div>}
        </div>)}
    </div>
  );
}
