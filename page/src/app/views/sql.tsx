// SQL: with completion, a plan, a chart, and the answer as a file.
import { type JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { ARROW, Failure, get, post, postForArrow, type Column, type Row } from "../api";
import { useData } from "../live";
import { Act, Choice, Heading, Nothing, Problem, RowTable, SnapshotLink } from "../parts";
import { useBranches } from "../refs";
import { type Route } from "../route";
import { type SqlAnswer, type TableInfo } from "../types";
import { isNumber, plural, text } from "../words";
import { quoted } from "./edits";

const WORDS = ["SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "JOIN", "LEFT JOIN", "INSERT INTO", "UPDATE", "DELETE FROM", "CREATE TABLE", "CREATE BRANCH", "VERSION AS OF", "count(*)", "sum(", "avg(", "EXPLAIN"];
const MOST = 1000;
const FIRST = "CREATE TABLE orders (id BIGINT PRIMARY KEY, city STRING)";

export function SqlView({ route }: { route: Route }): JSX.Element {
  const branches = useBranches();
  const [branch, setBranch] = useState(route.given.branch ?? "main");
  const [sql, setSql] = useState(route.given.sql ?? "");
  const [answer, setAnswer] = useState<SqlAnswer | null>(null), [plan, setPlan] = useState("");
  const [error, setError] = useState<Failure | null>(null), [isBusy, setBusy] = useState(false);
  const [isChart, setChart] = useState(false);
  const tables = useData(`names ${branch}`, async (signal) => {
    const found = await get<{ tables: string[] }>("/v1/tables", { ref: branch }, signal);
    return Promise.all(found.tables.slice(0, 40).map((table) => get<TableInfo>("/v1/table", { table, ref: branch }, signal)));
  }, ["branch"]);
  const names = [...new Set([...(tables.data ?? []).flatMap((table) => [table.name, ...table.columns.map((column) => column.name)]), ...branches.map((one) => one.name), ...WORDS])];
  const example = tables.data?.[0] ? `SELECT * FROM ${/^\w+$/.test(tables.data[0].name) ? tables.data[0].name : quoted(tables.data[0].name)} LIMIT 10` : FIRST;
  const run = async (isPlan: boolean): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      const told = await post<SqlAnswer>("/v1/sql", { sql: isPlan ? `EXPLAIN ${sql}` : sql, branch, limit: MOST });
      if (isPlan) setPlan(told.rows.map((row) => Object.values(row).map(text).join("  ")).join("\n"));
      else { setAnswer(told); setPlan(""); }
    } catch (failure) {
      if (!(failure instanceof Failure)) throw failure;
      setError(failure);
    }
    setBusy(false);
  };
  return (
    <section class="page">
      <Heading title="SQL"><Choice label="On branch" value={branch} options={branches.length ? branches.map((one) => one.name) : [branch]} onChange={setBranch} /></Heading>
      <form onSubmit={(event) => { event.preventDefault(); void run(false); }}>
        <Editor value={sql} names={names} onChange={setSql} onRun={() => void run(false)} />
        <div class="row"><button type="submit" class="main" disabled={isBusy || !sql.trim()}>{isBusy ? "Running…" : "Run"}</button>
          <button type="button" disabled={isBusy || !sql.trim()} onClick={() => void run(true)}>Plan</button>
          <span class="note keys">Ctrl+Enter runs it; Tab takes the first suggestion, Escape takes none</span></div>
      </form>
      {error && <Problem error={error} />}
      {plan && <pre aria-label="Plan">{plan}</pre>}
      {answer && <Answer of={answer} sql={sql} branch={branch} isChart={isChart} setChart={setChart} />}
      {!answer && !error && !plan && <Nothing><p>{example === FIRST ? "Ask something; there is no table yet, so make one first:" : "Ask something:"} <button type="button" onClick={() => setSql(example)}><code>{example}</code></button></p></Nothing>}
    </section>
  );
}

function Editor({ value, names, onChange, onRun }: { value: string; names: string[]; onChange: (value: string) => void; onRun: () => void }): JSX.Element {
  const box = useRef<HTMLTextAreaElement>(null);
  const [at, setAt] = useState(0);
  const [isPlain, setPlain] = useState(false);
  const begun = /[\w.`]+$/.exec(value.slice(0, at))?.[0] ?? "";
  const fitting = begun.length > 1 && !isPlain ? names.filter((name) => name.toLowerCase().startsWith(begun.toLowerCase()) && name !== begun).slice(0, 8) : [];
  const take = (name: string): void => {
    const before = value.slice(0, at - begun.length) + name;
    onChange(before + value.slice(at));
    setAt(before.length);
    requestAnimationFrame(() => { box.current?.focus(); box.current?.setSelectionRange(before.length, before.length); });
  };
  return (
    <div class="editor">
      <label class="field"><span>Statement</span>
        <textarea ref={box} rows={5} value={value} spellcheck={false} aria-describedby="suggestions"
          onInput={(event) => { setPlain(false); onChange(event.currentTarget.value); setAt(event.currentTarget.selectionStart); }}
          onClick={(event) => setAt(event.currentTarget.selectionStart)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); onRun(); }
            if (event.key === "Escape") setPlain(true);
            if (event.key === "Tab" && fitting.length && !event.shiftKey) { event.preventDefault(); take(fitting[0]); }
          }} />
      </label>
      <p id="suggestions" class="row suggestions" aria-live="polite">{fitting.map((name) => <button type="button" key={name} onClick={() => take(name)}>{name}</button>)}</p>
    </div>
  );
}

function Answer({ of, sql, branch, isChart, setChart }: { of: SqlAnswer; sql: string; branch: string; isChart: boolean; setChart: (is: boolean) => void }): JSX.Element {
  const numbers = of.columns.filter(({ type }) => isNumber(type));
  return (
    <div role="region" aria-label="Answer">
      <p class="note" role="status">{of.snapshot ? <>{plural(of.changed, "row")} changed in <SnapshotLink id={of.snapshot} /></> : `${plural(of.rows.length, "row")}${of.more ? " of more" : ""}`} · {of.engine} engine</p>
      {of.columns.length > 0 && <>
        <div class="row">
          {numbers.length > 0 && <button type="button" aria-pressed={isChart} onClick={() => setChart(!isChart)}>Chart</button>}
          <button type="button" onClick={() => save("answer.csv", "text/csv", csv(of))}>Save as CSV</button>
          <Act words="Save as Arrow" act={() => saveArrow(sql, branch)} />
        </div>
        {isChart && numbers.length > 0 ? <Bars columns={of.columns} rows={of.rows} /> : <RowTable columns={of.columns} rows={of.rows} label="Rows of the answer" />}
      </>}
    </div>
  );
}

/** One bar for each row: the first column that is no number names it, the last number is its length. */
function Bars({ columns, rows }: { columns: Column[]; rows: Row[] }): JSX.Element {
  const value = columns.findLast(({ type }) => isNumber(type)) ?? columns[0], label = columns.find(({ type }) => !isNumber(type)) ?? columns[0];
  const shown = rows.slice(0, 40), most = Math.max(...shown.map((row) => Math.abs(Number(row[value.name]) || 0)), 1e-9);
  return (
    <table class="bars"><caption class="note">{value.name} by {label.name}{rows.length > shown.length ? `, the first ${shown.length}` : ""}</caption>
      <tbody>{shown.map((row, at) => (
        <tr key={at}><th scope="row" dir="auto">{text(row[label.name])}</th>
          <td><svg class="track" preserveAspectRatio="none" viewBox="0 0 100 10" aria-hidden="true"><rect width={(100 * Math.abs(Number(row[value.name]) || 0)) / most} height="10" /></svg></td>
          <td class="number">{text(row[value.name])}</td></tr>))}</tbody></table>
  );
}

const csvCell = (words: string): string => (/[",\n\r]/.test(words) ? `"${words.replaceAll('"', '""')}"` : words);

function csv(of: SqlAnswer): string {
  const lines = of.rows.map((row) => of.columns.map((column) => row[column.name] === null ? "" : csvCell(text(row[column.name]) || '""')));
  return [of.columns.map((column) => csvCell(column.name)), ...lines].map((line) => line.join(",")).join("\r\n") + "\r\n";
}

function save(name: string, type: string, content: BlobPart): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

const saveArrow = async (sql: string, branch: string): Promise<void> =>
  save("answer.arrows", ARROW, await postForArrow("/v1/sql", { sql, branch }));
