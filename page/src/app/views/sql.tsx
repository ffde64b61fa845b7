// SQL: with completion, a plan, a chart, and the answer as a file.
import { type JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { ARROW, asFailure, Failure, get, post, postForArrow, type Column, type Row, type Value } from "../api";
import { useData } from "../live";
import { Act, Choice, Heading, Nothing, Problem, RowTable, SnapshotLink } from "../parts";
import { useBranches } from "../refs";
import { remember, type Route } from "../route";
import { type SqlAnswer, type TableInfo } from "../types";
import { useDefaultBranch } from "../user";
import { isNumber, number, plural, text } from "../words";
import { quoted } from "./edits";

const WORDS = ["SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "JOIN", "LEFT JOIN", "INSERT INTO", "UPDATE", "DELETE FROM", "CREATE TABLE", "CREATE MATERIALIZED VIEW", "CREATE VIEW", "CREATE BRANCH", "VERSION AS OF", "count(*)", "sum(", "avg(", "EXPLAIN"];
const MOST = 1000, MOST_BARS = 40;
const FIRST = "CREATE TABLE orders (id BIGINT PRIMARY KEY, city STRING)";

export function SqlView({ route }: { route: Route }): JSX.Element {
  const branches = useBranches();
  const main = useDefaultBranch(), [branch, setBranch] = useState(route.given.branch ?? main);
  const [sql, setSql] = useState(route.given.sql ?? "");
  const [answer, setAnswer] = useState<Answered | null>(null), [plan, setPlan] = useState("");
  const stop = useRef<AbortController | null>(null);
  const [error, setError] = useState<Failure | null>(null), [isBusy, setBusy] = useState(false);
  const [isChart, setChart] = useState(false);
  const tables = useData(`names ${branch}`, async (signal) => {
    const found = await get<{ tables: string[] }>("/v1/tables", { ref: branch }, signal);
    return Promise.all(found.tables.slice(0, 40).map((table) => get<TableInfo>("/v1/table", { table, ref: branch }, signal)));
  }, ["branch"]);
  const names = [...new Set([...[...(tables.data ?? []).flatMap((table) => [table.name, ...table.columns.map((column) => column.name)]), ...branches.map((one) => one.name)].map(named), ...WORDS])];
  const example = tables.data?.[0] ? `SELECT * FROM ${named(tables.data[0].name)} LIMIT 10` : FIRST;
  const run = async (isPlan: boolean): Promise<void> => {
    if (isBusy || !sql.trim()) return;
    const { signal } = stop.current = new AbortController();
    setBusy(true);
    setError(null);
    setAnswer(null);
    setPlan("");
    remember("sql", { branch: branch === main ? "" : branch, sql });
    try {
      const told = await post<SqlAnswer>("/v1/sql", { sql: isPlan ? `EXPLAIN ${sql}` : sql, branch, limit: MOST }, signal);
      if (isPlan) setPlan(told.rows.map((row) => Object.values(row).map(text).join("  ")).join("\n"));
      else { setAnswer({ ...told, sql, branch }); if (told.snapshot) tables.reload(); }
    } catch (failure) {
      setError(signal.aborted ? new Failure("stopped", "The server may go on with it for a while; what changes rows is committed or not, and the graph shows which.", 0) : asFailure(failure));
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
          {isBusy && <button type="button" onClick={() => stop.current?.abort()}>Stop waiting</button>}
          <span class="note keys">Ctrl+Enter runs it; Tab takes a suggestion, ↓ and ↑ go through them, Escape takes none</span></div>
      </form>
      {error && <Problem error={error} />}
      {plan && <pre aria-label="Plan" tabIndex={0}>{plan}</pre>}
      {answer && <Answer of={answer} isChart={isChart} setChart={setChart} />}
      {isBusy && <p class="note" role="status">It runs on the server…</p>}
      {!answer && !error && !plan && !isBusy && <Nothing><p>{!tables.data ? "Ask something, such as" : example === FIRST ? "Ask something; there is no table yet, so make one first:" : "Ask something:"} <button type="button" onClick={() => setSql(example)}><code>{example}</code></button></p></Nothing>}
    </section>
  );
}

/** An answer, with the statement that it answers. */
interface Answered extends SqlAnswer { sql: string; branch: string }

/** A name as SQL takes it. */
const named = (name: string): string => (/^[A-Za-z_]\w*$/.test(name) ? name : quoted(name));
const bare = (name: string): string => name.replaceAll("`", "").toLowerCase();

function Editor({ value, names, onChange, onRun }: { value: string; names: string[]; onChange: (value: string) => void; onRun: () => void }): JSX.Element {
  const box = useRef<HTMLTextAreaElement>(null);
  const [at, setAt] = useState(0);
  const [isPlain, setPlain] = useState(false), [choice, setChoice] = useState(0);
  const begun = /[\p{L}\p{N}_`]+$/u.exec(value.slice(0, at))?.[0] ?? "";
  const fitting = bare(begun).length > 1 && !isPlain ? names.filter((name) => bare(name).startsWith(bare(begun)) && name !== begun).slice(0, 8) : [];
  const chosen = Math.min(choice, Math.max(0, fitting.length - 1));
  const take = (name: string): void => {
    const before = value.slice(0, at - begun.length) + name;
    onChange(before + value.slice(at));
    setAt(before.length);
    setChoice(0);
    requestAnimationFrame(() => { box.current?.focus(); box.current?.setSelectionRange(before.length, before.length); });
  };
  return (
    <div class="editor">
      <label class="field"><span>Statement</span>
        <textarea ref={box} rows={5} value={value} spellcheck={false} aria-describedby="suggestions"
          onInput={(event) => { setPlain(false); setChoice(0); onChange(event.currentTarget.value); setAt(event.currentTarget.selectionStart); }}
          onClick={(event) => setAt(event.currentTarget.selectionStart)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); onRun(); }
            if (event.key === "Escape") setPlain(true);
            if (event.key === "Tab" && fitting.length && !event.shiftKey) { event.preventDefault(); take(fitting[chosen]); }
            const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
            if (step && fitting.length > 1) { event.preventDefault(); setChoice((chosen + step + fitting.length) % fitting.length); }
          }} />
      </label>
      <p id="suggestions" class="row suggestions" aria-live="polite">{fitting.map((name, place) => <button type="button" key={name} aria-pressed={place === chosen} onClick={() => take(name)}>{name}</button>)}</p>
    </div>
  );
}

function Answer({ of, isChart, setChart }: { of: Answered; isChart: boolean; setChart: (is: boolean) => void }): JSX.Element {
  const numbers = of.columns.filter(({ type }) => isNumber(type));
  const [told, setTold] = useState("");
  return (
    <div role="region" aria-label="Answer">
      <p class="note" role="status">{of.snapshot ? <>{plural(of.changed, "row")} changed in <SnapshotLink id={of.snapshot} /></> : of.columns.length === 0 ? "Done." : of.more ? `The first ${plural(of.rows.length, "row")}; there are more` : plural(of.rows.length, "row")} · {of.engine} engine</p>
      {of.columns.length > 0 && <>
        <div class="row">
          {numbers.length > 0 && <button type="button" aria-pressed={isChart} onClick={() => setChart(!isChart)}>Chart</button>}
          <Act words="Save as CSV" act={async () => setTold(await saveCsv(of))} />
          <Act words="Save as Arrow" act={() => saveArrow(of)} />
          {told && <span class="note" role="status">{told}</span>}
        </div>
        {isChart && numbers.length > 0 ? <Chart columns={of.columns} rows={of.rows} /> : <RowTable columns={of.columns} rows={of.rows} label="Rows of the answer" />}
      </>}
    </div>
  );
}

/** How long the bar of a value is; what has no end, or is no number, has none. */
const lengthOf = (value: Value): number => Number.isFinite(Number(value)) ? Number(value) : 0;

/** One bar for each row; what names it and what is its length can be chosen. */
function Chart({ columns, rows }: { columns: Column[]; rows: Row[] }): JSX.Element {
  const numbers = columns.filter(({ type }) => isNumber(type)).map(({ name }) => name);
  const [value, setValue] = useState(numbers.at(-1) ?? ""), [label, setLabel] = useState((columns.find(({ type }) => !isNumber(type)) ?? columns[0]).name);
  const shown = rows.slice(0, MOST_BARS), sizes = shown.map((row) => lengthOf(row[value]));
  const least = Math.min(0, ...sizes), span = Math.max(0, ...sizes) - least || 1;
  return (
    <>
      {columns.length > 1 && <div class="bar"><Choice label="Length of the bars" value={value} options={numbers} onChange={setValue} />
        <Choice label="Their names" value={label} options={columns.map(({ name }) => name)} onChange={setLabel} /></div>}
      <table class="bars"><caption class="note">{value} by {label}{rows.length > shown.length ? `, the first ${shown.length}` : ""}</caption>
        <tbody>{shown.map((row, at) => (
          <tr key={at}><th scope="row" dir="auto">{text(row[label])}</th>
            <td><svg class="track" preserveAspectRatio="none" viewBox="0 0 100 10" aria-hidden="true"><rect class={sizes[at] < 0 ? "below" : undefined} x={(100 * (Math.min(0, sizes[at]) - least)) / span} width={(100 * Math.abs(sizes[at])) / span} height="10" /></svg></td>
            <td class="number">{row[value] === null ? <i class="null">null</i> : text(row[value])}</td></tr>))}</tbody></table>
    </>
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

/** The whole answer, as far as the server sends it in this form; what is left out is told. */
async function saveCsv(of: Answered): Promise<string> {
  const whole = of.more ? await post<SqlAnswer>("/v1/sql", { sql: of.sql, branch: of.branch }) : of;
  save("answer.csv", "text/csv", csv(whole));
  return whole.more ? `Only the first ${number(whole.rows.length)} rows are in the file; an Arrow file has more.` : `${plural(whole.rows.length, "row")} saved.`;
}

const saveArrow = async ({ sql, branch }: Answered): Promise<void> =>
  save("answer.arrows", ARROW, await postForArrow("/v1/sql", { sql, branch }));
