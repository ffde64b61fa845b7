// Two states side by side, and one merged into the other.
import { type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, post, type Row, type Value } from "../api";
import { useData } from "../live";
import { Act, Cell, Choice, Field, Heading, Nothing, Shown, Wide } from "../parts";
import { go, goAfter, to, type Route } from "../route";
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
            <Wide label="Tables that differ"><table class="summary"><thead><tr><th scope="col">Table</th><th scope="col">inserted</th><th scope="col">updated</th><th scope="col">deleted</th><th scope="col">schema</th></tr></thead>
              <tbody>{names.map((each) => (
                <tr key={each} class={each === chosen ? "chosen" : undefined}>
                  <th scope="row"><a href={to("compare", { before, after, table: each })} dir="auto">{each}</a></th>
                  <td class="plus">{number(diff.tables[each].inserted)}</td><td class="edit">{number(diff.tables[each].updated)}</td>
                  <td class="minus">{number(diff.tables[each].deleted)}</td><td>{diff.tables[each].schema_state}</td>
                </tr>))}</tbody></table></Wide>)}
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
interface Rules { on_conflict: Policy | Record<string, Policy>; granularity: string }
type Settled = Record<string, { key: Row; take: Policy }[]>;

const keyOf = (row: Row): Row => Object.fromEntries(Object.entries(row).filter(([column]) => !column.startsWith("_")));
const POLICIES: [string, string][] = [["fail", "stop on conflicts"], ["ours", "keep the target's"], ["theirs", "take the source's"]];

/** A merge looked at before it is made; `merge` makes it. */
export function MergeForm({ source, into, preview, merge, words }: {
  source: string; into: string; words: string;
  preview: (how: Rules) => Promise<Preview>;
  merge: (how: Rules & { settled: Settled; message: string }) => Promise<unknown>;
}): JSX.Element {
  const [granularity, setGranularity] = useState("row");
  const [whole, setWhole] = useState<Policy>("fail");
  const [tables, setTables] = useState<Record<string, Policy>>({});
  const [message, setMessage] = useState("");
  const [settled, setSettled] = useState<Settled>({});
  const on_conflict = Object.keys(tables).length ? tables : whole;
  const found = useData(`preview ${source} ${into} ${granularity} ${JSON.stringify(on_conflict)}`, () => preview({ on_conflict, granularity }), ["commit", "branch"]);
  return (
    <>
      <div class="bar">
        <Choice label="Conflicts" value={whole} options={POLICIES} onChange={(value) => { setTables({}); setWhole(value as Policy); }} />
        <Choice label="Compare by" value={granularity} options={[["row", "row"], ["cell", "cell"]]} onChange={setGranularity} />
        <Field label="Message" value={message} onChange={setMessage} />
      </div>
      <Shown of={found}>{(told) => {
        const names = Object.keys(told.conflicts);
        const isSettled = (table: string): boolean => (tables[table] ?? whole) !== "fail" || (settled[table] ?? []).length === told.conflicts[table].length;
        return (
          <>
            <p class={told.is_clean ? "fine" : "bad"} role="status">
              {told.is_clean ? (told.fast_forward ? "Nothing stands in the way: the target only moves on." : "Nothing stands in the way.")
                : names.every(isSettled) && !Object.keys(told.schema_conflicts).length ? "All conflicts are settled as you chose."
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
                <Conflicts rows={told.conflicts[table]} policy={tables[table] ?? whole} settled={settled[table] ?? []}
                  onSettle={(key, take) => setSettled({ ...settled, [table]: [...(settled[table] ?? []).filter((one) => JSON.stringify(one.key) !== JSON.stringify(key)), { key, take }] })} />
              </fieldset>))}
            <Act words={words} isMain act={() => merge({ on_conflict, granularity, settled, message })} />
          </>
        );
      }}</Shown>
    </>
  );
}

interface ConflictsProps { rows: Row[]; policy: Policy; settled: { key: Row; take: Policy }[]; onSettle: (key: Row, take: Policy) => void }

/** Rows in conflict, cell by cell; each can be settled by itself. */
function Conflicts({ rows, policy, settled, onSettle }: ConflictsProps): JSX.Element {
  const side = (row: Row, name: string): Row => (row[name] as Row | null) ?? {};
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Rows in conflict">
      <table class="rows"><thead><tr><th scope="col">key</th><th scope="col">column</th><th scope="col">before</th><th scope="col">target</th><th scope="col">source</th><th scope="col">take</th></tr></thead>
        <tbody>{rows.slice(0, LIMIT).flatMap((row, at) => {
          const key = keyOf(row), words = Object.values(key).map(text).join(", ");
          const ours = side(row, "_ours"), theirs = side(row, "_theirs"), base = side(row, "_base");
          const take = settled.find((one) => JSON.stringify(one.key) === JSON.stringify(key))?.take ?? policy;
          const columns = [...new Set([...Object.keys(ours), ...Object.keys(theirs)])].filter((column) => text(ours[column] as Value) !== text(theirs[column] as Value));
          const shown = columns.length ? columns : [""];
          return shown.map((column, place) => (
            <tr key={`${at} ${column}`}>
              {place === 0 && <th scope="row" dir="auto" rowSpan={shown.length}>{words}</th>}
              <td dir="auto">{column || "the row"}</td>
              <td>{row._base ? <Cell value={base[column]} /> : "—"}</td>
              <td class={take === "ours" ? "chosen" : ""}>{row._ours ? <Cell value={ours[column]} /> : "deleted"}</td>
              <td class={take === "theirs" ? "chosen" : ""}>{row._theirs ? <Cell value={theirs[column]} /> : "deleted"}</td>
              {place === 0 && <td rowSpan={shown.length}><span class="row" role="group" aria-label={`Of ${words} take`}>
                <button type="button" aria-pressed={take === "ours"} onClick={() => onSettle(key, "ours")}>target's</button>
                <button type="button" aria-pressed={take === "theirs"} onClick={() => onSettle(key, "theirs")}>source's</button></span></td>}
            </tr>));
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
        preview={(how) => post("/v1/merge/preview", { source, into, ...how })}
        merge={(how) => goAfter(post<Snapshot>("/v1/merge", { source, into, ...how }), "graph", (made) => ({ at: made.id }))} />
        : <Nothing><p>Choose the branch whose changes are wanted, and the one that shall have them.</p></Nothing>}
    </section>
  );
}
