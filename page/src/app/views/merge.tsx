// One branch merged into another: looked at first, its conflicts settled.
import { type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { post, type Row } from "../api";
import { useData, useKept } from "../live";
import { Act, Cell, Choice, Field, Heading, NotOffered, Nothing, Shown } from "../parts";
import { useRights } from "../rights";
import { go, goAfter, type Route } from "../route";
import { type Preview, type Snapshot } from "../types";
import { isAlike, number, plural, refName, text } from "../words";
import { SchemaChanges } from "./compare";

const LIMIT = 200;

type Policy = "fail" | "ours" | "theirs";
interface Rules { on_conflict: Policy | Record<string, Policy>; granularity: string }
type Settled = Record<string, { key: Row; take: Policy }[]>;

const keyOf = (row: Row): Row => Object.fromEntries(Object.entries(row).filter(([column]) => !column.startsWith("_")));
const policies = (source: string, into: string): [string, string][] => [["fail", "let me choose"], ["ours", `keep what ${into} says`], ["theirs", `take what ${source} says`]];

/** What is no row, but both sides' say about a column or table. */
const isOfSchema = (conflict: Row): boolean => conflict.kind === "schema" && !("_ours" in conflict);

/** Whether it was said of a row whose values count. */
const isTaken = (settled: Settled[string] | undefined, key: Row): boolean => (settled ?? []).some((one) => isAlike(one.key, key));

/** The sides by the names of their branches. */
const sideWords = (why: string, source: string, into: string): string =>
  why.replace(/\bours\b/g, into).replace(/\btheirs\b/g, source);

/** What is changed at all, in words. */
const countWords = (counts: Record<string, number>): string =>
  Object.entries(counts).filter(([, count]) => count > 0).map(([what, count]) => `${number(count)} ${what}`).join(", ") || "nothing";

/** A merge looked at before it is made; `merge` makes it. */
export function MergeForm({ source, into, preview, merge, words, refusal }: {
  source: string; into: string; words: string; refusal: string;
  preview: (how: Rules) => Promise<Preview>;
  merge: (how: Rules & { settled: Settled; message: string }) => Promise<unknown>;
}): JSX.Element {
  const [granularity, setGranularity] = useState("row");
  const [whole, setWhole] = useState<Policy>("fail");
  const [tables, setTables] = useState<Record<string, Policy>>({});
  const [message, setMessage] = useState("");
  const [settled, setSettled] = useState<Settled>({});
  const on_conflict = Object.keys(tables).length ? tables : whole;
  const found = useKept(useData(`preview ${source} ${into} ${granularity} ${JSON.stringify(on_conflict)}`, () => preview({ on_conflict, granularity }), ["commit", "branch"]), "");
  const rules = policies(refName(source), refName(into));
  return (
    <>
      <div class="bar">
        <Choice label="A conflict is" value={granularity} options={[["row", "a row both changed"], ["cell", "a cell both changed"]]} onChange={setGranularity} />
        <Choice label="Where there is one" value={whole} options={rules} onChange={(value) => { setTables({}); setWhole(value as Policy); }} />
        <Field label="Message of the merge" value={message} onChange={setMessage} placeholder={`merge ${refName(source)}`} />
      </div>
      <Shown of={found}>{(told) => {
        // A rule that settled all of a table stays there, to be chosen otherwise.
        const names = [...new Set([...Object.keys(told.conflicts), ...Object.keys(tables).filter((table) => tables[table] !== "fail")])].sort();
        const conflictsOf = (table: string): Row[] => told.conflicts[table] ?? [];
        const rowsOf = (table: string): Row[] => conflictsOf(table).filter((one) => !isOfSchema(one));
        const isSettled = (table: string): boolean => (tables[table] ?? whole) !== "fail" || conflictsOf(table).every((one) => !isOfSchema(one) && isTaken(settled[table], keyOf(one)));
        const areSettled = names.every(isSettled) && !Object.keys(told.schema_conflicts).length && !told.refusal;
        const isNothing = told.is_clean && !told.fast_forward && !told.schema_changes.length && Object.values(told.changes).every((counts) => countWords(counts) === "nothing");
        const count = names.reduce((sum, table) => sum + rowsOf(table).length, 0);
        return (
          <>
            <p class={told.is_clean || areSettled ? "fine" : "bad"} role="status">
              {isNothing && whole === "fail" && !Object.keys(tables).length ? `There is nothing to merge: ${refName(into)} has all that ${refName(source)} changed.`
                : told.is_clean ? (told.fast_forward ? `Nothing stands in the way: ${into} only moves on.` : "Nothing stands in the way.")
                : areSettled ? "All conflicts are settled as you chose."
                : told.refusal ? `The rows of both sides together would be refused: ${told.refusal}`
                : count ? `Both sides changed ${plural(count, "row")}, each in its own way: choose what counts.`
                : "Both sides changed the schema, each in its own way: choose by a rule whose counts."}
            </p>
            <SchemaChanges of={told.schema_changes} />
            {Object.entries(told.schema_conflicts).map(([element, why]) => <p class="bad" key={element}>The schema of <b dir="auto">{element}</b>: {sideWords(why, refName(source), refName(into))}</p>)}
            {Object.keys(told.changes).length > 0 && <ul class="plainlist">{Object.entries(told.changes).filter(([, counts]) => countWords(counts) !== "nothing").map(([table, counts]) => (
              <li key={table}><b dir="auto">{table}</b>: {countWords(counts)}</li>))}</ul>}
            {names.map((table) => (
              <fieldset class="conflict" key={table}><legend>{table}: {told.conflicts[table] ? plural(conflictsOf(table).length, "conflict") : "settled by its rule"}</legend>
                <Choice label={`Rule for ${table}`} value={tables[table] ?? whole} options={rules}
                  onChange={(value) => setTables({ ...Object.fromEntries(names.map((one) => [one, tables[one] ?? whole])), [table]: value as Policy })} />
                {rowsOf(table).length > 0 && <Conflicts rows={rowsOf(table)} source={refName(source)} into={refName(into)} policy={tables[table] ?? whole} settled={settled[table] ?? []}
                  onSettle={(key, take) => setSettled({ ...settled, [table]: [...(settled[table] ?? []).filter((one) => !isAlike(one.key, key)), { key, take }] })} />}
              </fieldset>))}
            {refusal ? <NotOffered of={[[words, refusal]]} />
              : <Act words={words} isMain isOff={found.isOld || (!told.is_clean && !areSettled)} act={() => merge({ on_conflict, granularity, settled, message })} />}
          </>
        );
      }}</Shown>
    </>
  );
}

interface ConflictsProps { rows: Row[]; source: string; into: string; policy: Policy; settled: { key: Row; take: Policy }[]; onSettle: (key: Row, take: Policy) => void }

/** Rows in conflict, cell by cell; each can be settled by itself. */
function Conflicts({ rows, source, into, policy, settled, onSettle }: ConflictsProps): JSX.Element {
  const side = (row: Row, name: string): Row => (row[name] as Row | null) ?? {};
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Rows in conflict">
      <table class="rows stack"><thead><tr><th scope="col">key</th><th scope="col">column</th><th scope="col">before</th><th scope="col" dir="auto">{into}</th><th scope="col" dir="auto">{source}</th><th scope="col">take</th></tr></thead>
        <tbody>{rows.slice(0, LIMIT).flatMap((row, at) => {
          const key = keyOf(row), words = Object.values(key).map(text).join(", ");
          const ours = side(row, "_ours"), theirs = side(row, "_theirs"), base = side(row, "_base");
          const take = settled.find((one) => isAlike(one.key, key))?.take ?? policy;
          const columns = [...new Set([...Object.keys(ours), ...Object.keys(theirs)])].filter((column) => !isAlike(ours[column], theirs[column]));
          const shown = columns.length ? columns : [""];
          return shown.map((column, place) => (
            <tr key={`${at} ${column}`}>
              {place === 0 && <th scope="row" dir="auto" rowSpan={shown.length}>{words}</th>}
              <td data-of="column" dir="auto">{column || "the row"}</td>
              <td data-of="before">{row._base ? <Cell value={base[column]} /> : "—"}</td>
              <td data-of={into} class={take === "ours" ? "chosen" : ""}>{row._ours ? <Cell value={ours[column]} /> : "deleted"}</td>
              <td data-of={source} class={take === "theirs" ? "chosen" : ""}>{row._theirs ? <Cell value={theirs[column]} /> : "deleted"}</td>
              {place === 0 && <td data-of="take" rowSpan={shown.length}><span class="row" role="group" aria-label={`Of ${words} take`}>
                <button type="button" aria-pressed={take === "ours"} onClick={() => onSettle(key, "ours")}>{into}'s</button>
                <button type="button" aria-pressed={take === "theirs"} onClick={() => onSettle(key, "theirs")}>{source}'s</button></span></td>}
            </tr>));
        })}</tbody></table>
      {rows.length > LIMIT && <p class="note">Only the first {LIMIT} of {number(rows.length)} are shown; a rule settles the others.</p>}
    </div>
  );
}

export function MergeView({ route }: { route: Route }): JSX.Element {
  const { source = "", into = "" } = route.given;
  const [from, setFrom] = useState(source), [to_, setTo] = useState(into), rights = useRights();
  useEffect(() => { setFrom(source); setTo(into); }, [source, into]);
  return (
    <section class="page">
      <Heading title="Merge" note="A preview: nothing is written until you merge">
        <form class="row" onSubmit={(event) => { event.preventDefault(); go("merge", { source: from, into: to_ }); }}>
          <Field label="From" value={from} onChange={setFrom} list="refs" required />
          <Field label="Into" value={to_} onChange={setTo} list="refs" required />
          <button type="submit">Preview</button>
        </form>
      </Heading>
      {source && into ? <MergeForm key={`${source} ${into}`} source={source} into={into} words={`Merge into ${into}`} refusal={rights.on(into, "merge")}
        preview={(how) => post("/v1/merge/preview", { source, into, ...how })}
        merge={(how) => goAfter(post<Snapshot>("/v1/merge", { source, into, ...how }), "graph", (made) => ({ at: made.id }))} />
        : <Nothing><p>Choose the branch whose changes are wanted, and the one that shall have them.</p></Nothing>}
    </section>
  );
}
