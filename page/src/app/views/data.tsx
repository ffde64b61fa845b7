// Tables at any ref: filtered, sorted, edited, and through their history.
import { type JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, post, type Column, type Row, type Value } from "../api";
import { useReturnedFocus } from "../focus";
import { useData } from "../live";
import { Cell, Field, Heading, Nothing, Problem, RowTable, Shown, SnapshotLink, Time } from "../parts";
import { useBranches } from "../refs";
import { go, to, type Route } from "../route";
import { type Page, type Rows, type Snapshot, type SqlAnswer, type SyncInfo, type TableInfo } from "../types";
import { isNumber, plural, text, when } from "../words";
import { Edits, quoted, type Edit } from "./edits";

const PAGE = 100, HISTORY = 200;

export function DataView({ route }: { route: Route }): JSX.Element {
  const { ref = "main", table = "" } = route.given;
  const branches = useBranches(), isBranch = branches.some((branch) => branch.name === ref);
  const tables = useData(`tables ${ref}`, (signal) => get<{ snapshot: string; tables: string[] }>("/v1/tables", { ref }, signal), ["commit", "branch"]);
  const [typed, setTyped] = useState(ref);
  const [edits, setEdits] = useState<Edit[]>([]);
  useEffect(() => { setTyped(ref); }, [ref]);
  return (
    <section class="page">
      <Heading title="Data" note={isBranch ? "Choose a row for its history, or to change it" : "As it was: nothing can be changed here"}>
        <form class="row" onSubmit={(event) => { event.preventDefault(); go("data", { ref: typed, table }); }}>
          <Field label="At branch, tag or snapshot" value={typed} onChange={setTyped} list="refs" />
          <button type="submit">Go</button>
        </form>
      </Heading>
      <Shown of={tables}>{(found) => found.tables.length === 0
        ? <Nothing><p>No tables at {ref} yet. <a href={to("sql", { branch: ref })}>Create one</a>.</p></Nothing>
        : (
          <>
            <nav class="tabs" aria-label="Tables">{found.tables.map((name) => (
              <a key={name} href={to("data", { ref, table: name })} aria-current={name === (table || found.tables[0]) ? "page" : undefined} dir="auto">{name}</a>))}
            </nav>
            <TableView key={`${ref} ${table || found.tables[0]}`} at={ref} table={table || found.tables[0]} isBranch={isBranch} edits={edits} setEdits={setEdits} />
          </>
        )}
      </Shown>
    </section>
  );
}

interface TableProps { at: string; table: string; isBranch: boolean; edits: Edit[]; setEdits: (edits: Edit[]) => void }

function TableView({ at, table, isBranch, edits, setEdits }: TableProps): JSX.Element {
  const [where, setWhere] = useState(""), [filter, setFilter] = useState("");
  const [sort, setSort] = useState<{ column: string; isDown: boolean } | undefined>();
  const [pages, setPages] = useState<(string | null)[]>([null]);
  const [row, setRow] = useState<Row | null>(null);
  const [past, setPast] = useState<Snapshot | null>(null);
  const ref = past ? `id:${past.id}` : at;
  const info = useData(`table ${ref} ${table}`, (signal) => get<TableInfo>("/v1/table", { table, ref }, signal), ["commit", "branch"]);
  const after = pages[pages.length - 1];
  const rows = useData(`rows ${ref} ${table} ${filter} ${sort?.column} ${sort?.isDown} ${after}`, async (signal): Promise<Page> => {
    if (!sort) return get<Page>("/v1/rows", { table, ref, where: filter, limit: PAGE, after }, signal);
    const said = `SELECT * FROM ${quoted(table)}${filter ? ` WHERE ${filter}` : ""} ORDER BY ${quoted(sort.column)}${sort.isDown ? " DESC" : ""} LIMIT ${PAGE}`;
    const answer = await post<SqlAnswer>("/v1/sql", { sql: said, ref });
    return { ...answer, snapshot: "", next: null };
  }, ["commit", "branch"]);
  // Who writes the branch is asked once its rows are seen.
  const isShown = rows.data !== null;
  const syncs = useData(isShown ? "syncs" : "", async (signal) => isShown ? get<{ syncs: SyncInfo[] }>("/v1/syncs", {}, signal) : null, ["sync"]);
  const maker = syncs.data?.syncs.find((sync) => sync.target === at && sync.direction === "forward" && sync.state !== "detached");
  const canEdit = isBranch && !past && !maker && (syncs.data !== null || syncs.error !== null);
  const changes = useData(`changes ${past?.id ?? ""} ${table}`, async (signal) => {
    if (!past || !past.parents.length) return null;
    return get<Rows>("/v1/diff/rows", { before: `id:${past.parents[0]}`, after: `id:${past.id}`, table, limit: PAGE }, signal);
  }, []);
  const choose = (column: string): void => {
    setPages([null]);
    setSort(sort?.column === column ? (sort.isDown ? undefined : { column, isDown: true }) : { column, isDown: false });
  };
  const key = info.data?.key ?? [];
  const isSame = (a: Row, b: Row): boolean => key.every((name) => text(a[name]) === text(b[name]));
  const changed = (found: Row, column: string): boolean => (changes.data?.rows ?? []).some((change) => {
    const now = change._after as Row | null, before = change._before as Row | null;
    return now !== null && isSame(now, found) && (before === null || text(before[column]) !== text(now[column]));
  });
  return (
    <>
      <form class="bar" onSubmit={(event) => { event.preventDefault(); setPages([null]); setFilter(where); }}>
        <Field label="Only rows where" value={where} onChange={setWhere} placeholder={example(info.data?.columns ?? [])} isWide />
        <button type="submit">Filter</button>
        {filter && <button type="button" onClick={() => { setWhere(""); setFilter(""); setPages([null]); }}>All rows</button>}
        {info.data && <span class="note">{plural(info.data.row_count, "row")}{filter ? " before the filter" : ""}</span>}
      </form>
      <HistorySlider at={at} table={table} past={past} onChange={setPast} />
      <div class="beside">
        <div>
          <Shown of={rows}>{(page) => page.rows.length
            ? <RowTable columns={page.columns} rows={page.rows} label={`Rows of ${table}`} onRow={setRow} chosen={row} sort={sort} onSort={choose} marked={past ? changed : undefined} />
            : <Nothing><p>{filter ? "No row is like that." : "No rows yet."}</p></Nothing>}
          </Shown>
          <div class="row">
            {pages.length > 1 && <button type="button" onClick={() => setPages(pages.slice(0, -1))}>Back</button>}
            {rows.data?.next && <button type="button" onClick={() => setPages([...pages, rows.data?.next ?? null])}>More rows</button>}
            {canEdit && info.data && <button type="button" onClick={() => setRow(emptyRow(info.data?.columns ?? []))}>New row</button>}
          </div>
          {maker && !past && <p class="note">Made by the sync <a href={to("syncs", { name: maker.name })} dir="auto">{maker.name}</a>: change {maker.sources.join(", ")}, or detach the sync.</p>}
          {past && changes.data && <p class="note">{plural(changes.data.rows.length, "row")} of {table} changed in <SnapshotLink id={past.id} />: {past.message || past.operation}, by {past.author}</p>}
        </div>
        {row && info.data && <RowPanel key={JSON.stringify(row)} at={ref} info={info.data} row={row} canEdit={canEdit} onClose={() => setRow(null)}
          onEdit={(edit) => { setEdits([...edits.filter((one) => one.table !== table || !isSame(one.key, edit.key)), { ...edit, table, columns: info.data?.columns ?? [] }]); setRow(null); }} />}
      </div>
      {edits.length > 0 && <Edits branch={at} edits={edits} onChange={setEdits} />}
    </>
  );
}

/** A condition that could be typed: of a column that is there. */
function example(columns: Column[]): string {
  const column = columns.findLast(({ type }) => isNumber(type)) ?? columns[0];
  return column ? (isNumber(column.type) ? `${column.name} > 10` : `${column.name} IS NOT NULL`) : "";
}

const emptyRow = (columns: Column[]): Row => Object.fromEntries(columns.map((column) => [column.name, null]));

function HistorySlider({ at, table, past, onChange }: { at: string; table: string; past: Snapshot | null; onChange: (past: Snapshot | null) => void }): JSX.Element {
  const log = useData(`log ${at}`, (signal) => get<{ snapshots: Snapshot[] }>("/v1/snapshots", { ref: at, limit: HISTORY }, signal), ["commit"]);
  const all = [...(log.data?.snapshots ?? [])].reverse();
  const place = past ? all.findIndex((one) => one.id === past.id) : all.length - 1;
  if (all.length < 2) return <></>;
  return (
    <label class="slider"><span>{past ? `As of ${when(past.time)} · ${past.message || past.operation}` : "As of now; slide back through its history"}</span>
      <input type="range" min={0} max={all.length - 1} value={place} aria-label={`History of ${table}`}
        aria-valuetext={past ? `${when(past.time)}, ${past.message || past.operation}` : "now"}
        onInput={(event) => { const to = Number(event.currentTarget.value); onChange(to >= all.length - 1 ? null : all[to]); }} />
    </label>
  );
}

interface RowPanelProps { at: string; info: TableInfo; row: Row; canEdit: boolean; onClose: () => void; onEdit: (edit: Omit<Edit, "table" | "columns">) => void }

function RowPanel({ at, info, row, canEdit, onClose, onEdit }: RowPanelProps): JSX.Element {
  const isNew = info.key.every((name) => row[name] === null);
  const [values, setValues] = useState<Record<string, string | null>>(
    Object.fromEntries(info.columns.map((column) => [column.name, row[column.name] === null ? null : text(row[column.name])])));
  const key = info.key.map((name) => text(row[name]));
  const past = useData(isNew ? "" : `history ${at} ${info.name} ${key.join()}`, async (signal) =>
    isNew ? null : get<Rows>("/v1/history", { table: info.name, ref: at, key }, signal), ["commit"]);
  const isView = at === info.name && !isNew;  // a derived object is a branch of its own name
  const behind = useData(isView ? `lineage ${info.name} ${key.join()}` : "", async (signal) =>
    isView ? get<{ tables: Record<string, Row[]> }>("/v1/lineage", { view: info.name, key }, signal) : null, []);
  const panel = useRef<HTMLElement>(null);
  useReturnedFocus();
  useEffect(() => {
    panel.current?.focus({ preventScroll: true });
    // On a small screen it is below the rows.
    if (window.matchMedia("(max-width: 720px)").matches) panel.current?.scrollIntoView({ block: "start" });
  }, []);
  const keyOf = (found: Record<string, Value>): Row => Object.fromEntries(info.key.map((name) => [name, found[name]]));
  return (
    <aside class="side" aria-label="Row" ref={panel} tabIndex={-1} onKeyDown={(event) => { if (event.key === "Escape") onClose(); }}>
      <header><h3>{isNew ? "New row" : key.join(", ")}</h3><button type="button" class="close" aria-label="Close" onClick={onClose}>×</button></header>
      <form onSubmit={(event) => { event.preventDefault(); onEdit({ key: isNew ? keyOf(values) : keyOf(row), before: isNew ? null : row, after: values }); }}>
        {info.columns.map((column) => (
          <label class="field" key={column.name}><span>{column.name} <small>{column.type}{info.key.includes(column.name) ? " · key" : ""}</small></span>
            {canEdit && (isNew || !info.key.includes(column.name))
              ? <span class="row"><input type="text" value={values[column.name] ?? ""} placeholder={values[column.name] === null ? "null" : ""} onInput={(event) => setValues({ ...values, [column.name]: event.currentTarget.value })} />
                {column.nullable && <button type="button" aria-label={`${column.name} is null`} aria-pressed={values[column.name] === null} onClick={() => setValues({ ...values, [column.name]: null })}>null</button>}</span>
              : <output><Cell value={row[column.name]} /></output>}
          </label>))}
        {canEdit && <div class="row"><button type="submit" class="main">{isNew ? "Add to changes" : "Change"}</button>
          {!isNew && <button type="button" class="danger" onClick={() => onEdit({ key: keyOf(row), before: row, after: null })}>Delete</button>}</div>}
      </form>
      {!isNew && <>
        <h4>History</h4>
        <Shown of={past}>{(found) => <ol class="trail">{(found?.rows ?? []).map((one, place) => (
          <li key={place}><b>{text(one._change_type)}</b> by {text(one.author)} · <Time of={text(one.time)} /> <SnapshotLink id={text(one.snapshot)} /><br /><span dir="auto">{text(one.message)}</span></li>))}</ol>}
        </Shown>
        {behind.error && <Problem error={behind.error} />}
        {behind.data && Object.keys(behind.data.tables).length > 0 && <>
          <h4>Made from</h4>
          {Object.entries(behind.data.tables).map(([name, rows]) => (
            <details key={name}><summary>{name}: {plural(rows.length, "row")}</summary>
              <RowTable label={`Rows of ${name} behind this row`} columns={Object.keys(rows[0] ?? {}).filter((one) => !one.startsWith("_")).map((one) => ({ name: one, type: "", nullable: true }))} rows={rows.slice(0, 50)} />
            </details>))}
        </>}
      </>}
    </aside>
  );
}
