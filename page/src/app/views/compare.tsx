// Two states side by side, and one merged into the other.
import { type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, post, type Row, type Value } from "../api";
import { useData } from "../live";
import { Act, Cell, Choice, Field, Heading, Nothing, Shown } from "../parts";
import { go, to, type Route } from "../route";
import { type DiffInfo, type Preview, type Rows, type Snapshot } from "../types";
import { number, plural, text } from "../words";

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
          {before && after && <a class="button" href={to("merge", { source: after, into: before })}>Merge {name(after)} into {name(before)}…</a>}
        </form>
      </Heading>
      {before && after ? <Differences key={`${before} ${after}`} before={before} after={after} table={table} />
        : <Nothing><p>Choose two branches, tags or snapshots.</p></Nothing>}
    </section>
  );
}

const name = (ref: string): string => (/^[0-9a-f]{40,}$/.test(ref) ? ref.slice(0, 10) : ref);

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
            <table class="summary"><thead><tr><th scope="col">Table</th><th scope="col">inserted</th><th scope="col">updated</th><th scope="col">deleted</th><th scope="col">schema</th></tr></thead>
              <tbody>{names.map((each) => (
                <tr key={each} class={each === chosen ? "chosen" : undefined}>
                  <th scope="row"><a href={to("compare", { before, after, table: each })} dir="auto">{each}</a></th>
                  <td class="plus">{number(diff.tables[each].inserted)}</td><td class="edit">{number(diff.tables[each].updated)}</td>
                  <td class="minus">{number(diff.tables[each].deleted)}</td><td>{diff.tables[each].schema_state}</td>
                </tr>))}</tbody></table>)}
          {chosen && <RowDifferences key={chosen} before={before} after={after} table={chosen} />}
        </>
      );
    }}</Shown>
  );
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
          <table class="rows differences"><thead><tr><th scope="col">change</th>{columns.map((column) => <th scope="col" key={column} dir="auto">{column}</th>)}</tr></thead>
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

type Policy = "fail" | "ours" | "theirs";
const POLICIES: [string, string][] = [["fail", "stop on conflicts"], ["ours", "keep the target's"], ["theirs", "take the source's"]];

/** A merge looked at before it is made; `merge` makes it. */
export function MergeForm({ source, into, preview, merge, words }: {
  source: string; into: string; words: string;
  preview: (policy: unknown, granularity: string) => Promise<Preview>;
  merge: (policy: unknown, granularity: string, message: string) => Promise<unknown>;
}): JSX.Element {
  const [granularity, setGranularity] = useState("row");
  const [whole, setWhole] = useState<Policy>("fail");
  const [tables, setTables] = useState<Record<string, Policy>>({});
  const [message, setMessage] = useState("");
  const policy = Object.keys(tables).length ? tables : whole;
  const found = useData(`preview ${source} ${into} ${granularity} ${JSON.stringify(policy)}`, () => preview(policy, granularity), ["commit", "branch"]);
  return (
    <>
      <div class="bar">
        <Choice label="Conflicts" value={whole} options={POLICIES} onChange={(value) => { setTables({}); setWhole(value as Policy); }} />
        <Choice label="Compare by" value={granularity} options={[["row", "row"], ["cell", "cell"]]} onChange={setGranularity} />
        <Field label="Message" value={message} onChange={setMessage} />
      </div>
      <Shown of={found}>{(told) => {
        const names = Object.keys(told.conflicts);
        const isSettled = (table: string): boolean => (tables[table] ?? whole) !== "fail";
        return (
          <>
            <p class={told.is_clean ? "fine" : "bad"} role="status">
              {told.is_clean ? (told.fast_forward ? "Nothing stands in the way: the target only moves on." : "Nothing stands in the way.")
                : names.every(isSettled) && !Object.keys(told.schema_conflicts).length ? "All conflicts are settled by the rules you chose."
                : `Both sides changed ${plural(names.reduce((sum, table) => sum + told.conflicts[table].length, 0), "row")} otherwise.`}
            </p>
            <SchemaChanges of={told.schema_changes} />
            {Object.entries(told.schema_conflicts).map(([element, why]) => <p class="bad" key={element}><b>{element}</b>: {why}</p>)}
            {Object.keys(told.changes).length > 0 && <ul class="plainlist">{Object.entries(told.changes).map(([table, counts]) => (
              <li key={table}><b dir="auto">{table}</b>: {Object.entries(counts).map(([what, count]) => `${number(count)} ${what}`).join(", ")}</li>))}</ul>}
            {names.map((table) => (
              <fieldset class="conflict" key={table}><legend>{table}: {plural(told.conflicts[table].length, "conflict")}</legend>
                <Choice label={`Rule for ${table}`} value={tables[table] ?? whole} options={POLICIES}
                  onChange={(value) => setTables({ ...Object.fromEntries(names.map((one) => [one, tables[one] ?? whole])), [table]: value as Policy })} />
                <Conflicts rows={told.conflicts[table]} policy={tables[table] ?? whole} />
              </fieldset>))}
            <Act words={words} isMain act={() => merge(policy, granularity, message)} />
          </>
        );
      }}</Shown>
    </>
  );
}

function Conflicts({ rows, policy }: { rows: Row[]; policy: Policy }): JSX.Element {
  const side = (row: Row, name: string): Row => (row[name] as Row | null) ?? {};
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Rows in conflict">
      <table class="rows"><thead><tr><th scope="col">key</th><th scope="col">column</th><th scope="col">before</th><th scope="col">target</th><th scope="col">source</th></tr></thead>
        <tbody>{rows.slice(0, LIMIT).flatMap((row, at) => {
          const key = Object.entries(row).filter(([column]) => !column.startsWith("_")).map(([, value]) => text(value)).join(", ");
          const ours = side(row, "_ours"), theirs = side(row, "_theirs"), base = side(row, "_base");
          const columns = [...new Set([...Object.keys(ours), ...Object.keys(theirs)])].filter((column) => text(ours[column] as Value) !== text(theirs[column] as Value));
          return (columns.length ? columns : [""]).map((column) => (
            <tr key={`${at} ${column}`}><th scope="row" dir="auto">{key}</th><td dir="auto">{column || "the row"}</td>
              <td>{row._base ? <Cell value={base[column]} /> : "—"}</td>
              <td class={policy === "ours" ? "chosen" : ""}>{row._ours ? <Cell value={ours[column]} /> : "deleted"}</td>
              <td class={policy === "theirs" ? "chosen" : ""}>{row._theirs ? <Cell value={theirs[column]} /> : "deleted"}</td></tr>));
        })}</tbody></table>
    </div>
  );
}

export function MergeView({ route }: { route: Route }): JSX.Element {
  const { source = "", into = "" } = route.given;
  const [from, setFrom] = useState(source), [to_, setTo] = useState(into);
  useEffect(() => { setFrom(source); setTo(into); }, [source, into]);
  return (
    <section class="page">
      <Heading title="Merge" note="Looked at first; nothing is written until you say so">
        <form class="row" onSubmit={(event) => { event.preventDefault(); go("merge", { source: from, into: to_ }); }}>
          <Field label="From" value={from} onChange={setFrom} list="refs" required />
          <Field label="Into" value={to_} onChange={setTo} list="refs" required />
          <button type="submit">Look</button>
        </form>
      </Heading>
      {source && into ? <MergeForm key={`${source} ${into}`} source={source} into={into} words={`Merge into ${into}`}
        preview={(on_conflict, granularity) => post("/v1/merge/preview", { source, into, on_conflict, granularity })}
        merge={async (on_conflict, granularity, message) => {
          const made = await post<Snapshot>("/v1/merge", { source, into, on_conflict, granularity, message });
          go("graph", { at: made.id });
        }} />
        : <Nothing><p>Choose the branch whose changes are wanted, and the one that shall have them.</p></Nothing>}
    </section>
  );
}
