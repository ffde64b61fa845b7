// Two states side by side.
import { type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, type Row } from "../api";
import { useData } from "../live";
import { Cell, Field, Heading, Nothing, Shown, Wide } from "../parts";
import { go, to, type Route } from "../route";
import { type DiffInfo, type Rows } from "../types";
import { number, refName, text } from "../words";

const LIMIT = 200;

export function CompareView({ route }: { route: Route }): JSX.Element {
  const { before = "", after = "", table = "" } = route.given;
  const [one, setOne] = useState(before), [other, setOther] = useState(after);
  useEffect(() => { setOne(before); setOther(after); }, [before, after]);
  return (
    <section class="page">
      <Heading title="Compare" note="What changed from one state to another">
        <form class="row" onSubmit={(event) => { event.preventDefault(); go("compare", { before: one, after: other }); }}>
          <Field label="Before" value={one} onChange={setOne} list="refs" required />
          <Field label="After" value={other} onChange={setOther} list="refs" required />
          <button type="submit" class="main">Compare</button>
          {before && after && <a class="button" href={to("merge", { source: after, into: before })}>Merge {refName(after)} into {refName(before)}…</a>}
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
      const names = Object.keys(diff.tables).sort(), chosen = table || names[0];
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
          {chosen && <RowDifferences key={chosen} before={before} after={after} table={chosen} />}
        </>
      );
    }}</Shown>
  );
}

/** How many rows; none has no colour. */
function Count({ of, style }: { of: number; style: string }): JSX.Element {
  return <td class={of ? `number ${style}` : "number"}>{number(of)}</td>;
}

export function SchemaChanges({ of }: { of: Row[] }): JSX.Element {
  if (!of.length) return <></>;
  return (
    <><h3>Schema</h3>
      <ul class="plainlist">{of.map((change, at) => (
        <li key={at}><code dir="auto">{changeWords(change)}</code></li>))}</ul></>
  );
}

const changeWords = (change: Row): string => {
  if (typeof change.text === "string") return change.text;
  const { change: kind, ...rest } = change;
  const given = Object.entries(rest).filter(([, value]) => value !== null && value !== "" && value !== false);
  return `${text(kind ?? "change")}(${given.map(([key, value]) => `${key}=${text(value)}`).join(", ")})`;
};

function RowDifferences({ before, after, table }: { before: string; after: string; table: string }): JSX.Element {
  const found = useData(`diff rows ${before} ${after} ${table}`, (signal) =>
    get<Rows & { more: boolean }>("/v1/diff/rows", { before, after, table, limit: LIMIT }, signal), ["commit", "branch"]);
  return (
    <Shown of={found}>{(diff) => {
      const columns = [...new Set(diff.rows.flatMap((row) => Object.keys({ ...(row._before as Row | null), ...(row._after as Row | null) })))];
      return (
        <div class="scroll" tabIndex={0} role="region" aria-label={`Rows of ${table} that differ`}>
          <table class="rows differences"><caption class="note"><del>as in {refName(before)}</del> <ins>as in {refName(after)}</ins></caption><thead><tr><th scope="col">change</th>{columns.map((column) => <th scope="col" key={column} dir="auto">{column}</th>)}</tr></thead>
            <tbody>{diff.rows.map((row, at) => <Difference key={at} row={row} columns={columns} />)}</tbody></table>
          {diff.more && <p class="note">Only the first {LIMIT} rows are shown.</p>}
        </div>
      );
    }}</Shown>
  );
}

function Difference({ row, columns }: { row: Row; columns: string[] }): JSX.Element {
  const before = row._before as Row | null, after = row._after as Row | null, kind = text(row._change_type);
  return (
    <tr class={kind}><th scope="row">{kind}</th>{columns.map((column) => {
      const old = before?.[column] ?? null, now = after?.[column] ?? null;
      const isSame = before !== null && after !== null && text(old) === text(now);
      return <td key={column} class={isSame ? "" : "changed"}>
        {isSame ? <Cell value={now} /> : <>{before && <del><Cell value={old} /></del>} {after && <ins><Cell value={now} /></ins>}</>}
      </td>;
    })}</tr>
  );
}
