// Two states side by side.
import { type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Failure, get, type Row } from "../api";
import { useData, useKept } from "../live";
import { Field, Heading, Nothing, Shown, Wide } from "../parts";
import { useBranches } from "../refs";
import { go, to, type Route } from "../route";
import { type DiffInfo, type Rows, type TableInfo } from "../types";
import { number, plural, refName, text } from "../words";
import { DifferenceTable } from "./differences";

const LIMIT = 200, MOST = 10_000;

export function CompareView({ route }: { route: Route }): JSX.Element {
  const { before = "", after = "", table = "" } = route.given;
  const [one, setOne] = useState(before), [other, setOther] = useState(after);
  const branches = useBranches();
  useEffect(() => { setOne(before); setOther(after); }, [before, after]);
  return (
    <section class="page">
      <Heading title="Compare" note="What changed from one state to another">
        <form class="row" onSubmit={(event) => { event.preventDefault(); go("compare", { before: one, after: other }); }}>
          <Field label="Before" value={one} onChange={setOne} list="refs" required />
          <Field label="After" value={other} onChange={setOther} list="refs" required />
          <button type="submit" class="main">Compare</button>
          {before && after && <a class="button" href={to("compare", { before: after, after: before })}>Swap</a>}
          {after && branches.some(({ name }) => name === before) && <a class="button" href={to("merge", { source: after, into: before })}>Merge {refName(after)} into {refName(before)}…</a>}
        </form>
      </Heading>
      {before && after ? <Differences key={`${before} ${after}`} before={before} after={after} table={table} />
        : <Nothing><p>Choose two branches, tags or snapshots.</p></Nothing>}
    </section>
  );
}

function Differences({ before, after, table }: { before: string; after: string; table: string }): JSX.Element {
  const found = useData(`diff ${before} ${after}`, (signal) => get<DiffInfo>("/v1/diff", { before, after }, signal), ["commit", "branch"]);
  return (
    <Shown of={found}>{(diff) => {
      const names = Object.keys(diff.tables).filter((name) => differs(diff.tables[name])).sort(), chosen = table || names[0];
      return (
        <>
          <SchemaChanges of={diff.schema_changes} />
          {diff.notes.map((note) => <p class="note" key={note} dir="auto">{note}</p>)}
          {names.length === 0 && diff.schema_changes.length === 0 && <Nothing><p>There is no difference.</p></Nothing>}
          {names.length > 0 && (
            <Wide label="Tables that differ"><table class="summary"><thead><tr><th scope="col">Table</th><th scope="col" class="number">inserted</th><th scope="col" class="number">updated</th><th scope="col" class="number">deleted</th><th scope="col">schema</th></tr></thead>
              <tbody>{names.map((each) => (
                <tr key={each} class={each === chosen ? "chosen" : undefined}>
                  <th scope="row"><a href={to("compare", { before, after, table: each })} dir="auto">{each}</a></th>
                  <Count of={diff.tables[each].inserted} style="plus" /><Count of={diff.tables[each].updated} style="edit" />
                  <Count of={diff.tables[each].deleted} style="minus" /><td>{diff.tables[each].schema_state}</td>
                </tr>))}</tbody></table></Wide>)}
          {chosen && diff.tables[chosen] && diff.tables[chosen].schema_state !== "same" && <SchemaSides key={`schema ${chosen}`} before={before} after={after} table={chosen} />}
          {chosen && <RowDifferences key={chosen} before={before} after={after} table={chosen} />}
        </>
      );
    }}</Shown>
  );
}

/** Whether a table is another one: what was written back as it was is not. */
const differs = ({ inserted, updated, deleted, schema_state }: DiffInfo["tables"][string]): boolean =>
  inserted + updated + deleted > 0 || schema_state !== "same";

/** How many rows; none has no colour. */
function Count({ of, style }: { of: number; style: string }): JSX.Element {
  return <td class={of ? `number ${style}` : "number"}>{number(of)}</td>;
}

export function SchemaChanges({ of }: { of: Row[] }): JSX.Element {
  if (!of.length) return <></>;
  return (
    <><h3>Schema</h3>
      <ul class="plainlist">{of.map((change, at) => <li key={at}><SchemaChange of={change} /></li>)}</ul></>
  );
}

const UNTOLD = new Set(["change", "title", "id", "text", "table", "name"]);

/** A schema change as people say it: what, of what, and how. */
function SchemaChange({ of }: { of: Row }): JSX.Element {
  if (typeof of.text === "string") return <code dir="auto">{of.text}</code>;
  if (typeof of.reverted === "string") return <>take back: <SchemaChange of={JSON.parse(of.reverted) as Row} /></>;
  const words = text(of.change ?? "change").replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();
  const given = Object.entries(of).filter(([key, value]) => !UNTOLD.has(key) && value !== null && value !== "" && value !== false);
  return <>{words} <b dir="auto">{[of.table, of.name].filter(Boolean).map((one) => text(one)).join(".")}</b> <span class="note" dir="auto">{given.map(([key, value]) => value === true ? key : `${key} ${text(value)}`).join(", ")}</span></>;
}

/** The columns of a table on both sides; one that is not there on a side has none there. */
function SchemaSides({ before, after, table }: { before: string; after: string; table: string }): JSX.Element {
  const found = useData(`sides ${before} ${after} ${table}`, (signal) => Promise.all([before, after].map((ref) =>
    get<TableInfo>("/v1/table", { table, ref }, signal).catch((error: unknown) => { if (error instanceof Failure && error.status === 404) return null; throw error; }))), ["commit", "branch"]);
  return (
    <Shown of={found}>{([one, other]) => {
      const names = [...new Set([...(one?.columns ?? []), ...(other?.columns ?? [])].map(({ name }) => name))];
      const words = (info: TableInfo | null, name: string): string => {
        const column = info?.columns.find((each) => each.name === name);
        return column ? `${column.type}${column.nullable ? "" : " not null"}${info?.key.includes(name) ? ", key" : ""}` : "—";
      };
      return (
        <Wide label={`Columns of ${table} on both sides`}><table class="summary sides"><caption class="note">Columns of {table}; what differs is marked.</caption>
          <thead><tr><th scope="col">Column</th><th scope="col" dir="auto">{refName(before)}</th><th scope="col" dir="auto">{refName(after)}</th></tr></thead>
          <tbody>{names.map((name) => {
            const [then, now] = [words(one, name), words(other, name)];
            return <tr key={name}><th scope="row" dir="auto">{name}</th>{then === now ? <><td>{then}</td><td>{now}</td></>
              : <><td class="changed">{then === "—" ? then : <del>{then}</del>}</td><td class="changed">{now === "—" ? now : <ins>{now}</ins>}</td></>}</tr>;
          })}</tbody></table></Wide>
      );
    }}</Shown>
  );
}

function RowDifferences({ before, after, table }: { before: string; after: string; table: string }): JSX.Element {
  const [limit, setLimit] = useState(LIMIT);
  const found = useKept(useData(`diff rows ${before} ${after} ${table} ${limit}`, (signal) =>
    get<Rows & { more: boolean }>("/v1/diff/rows", { before, after, table, limit }, signal), ["commit", "branch"]), table);
  return (
    <Shown of={found}>{(diff) => diff.rows.length === 0 ? <p class="note">No row of {table} differs.</p> : (
      <>
        <DifferenceTable rows={diff.rows} keys={diff.columns.map(({ name }) => name)} label={`Rows of ${table} that differ`} caption={<><del>as in {refName(before)}</del> <ins>as in {refName(after)}</ins></>} />
        {diff.more && <p class="note" role="status">The first {plural(diff.rows.length, "row")} are shown. {diff.rows.length < MOST ? <button type="button" aria-disabled={found.isOld} onClick={() => setLimit(Math.min(MOST, limit * 5))}>More rows</button> : <a href={to("sql", { branch: after })}>SQL</a>}</p>}
      </>
    )}</Shown>
  );
}
