// Tables at any ref: filtered, sorted, edited, and through their history.
import { type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, post, type Column, type Row } from "../api";
import { useData, useKept } from "../live";
import { Choice, Field, Heading, Nothing, RowTable, Shown, SnapshotLink } from "../parts";
import { useBranches } from "../refs";
import { useRights } from "../rights";
import { go, remember, to, type Route } from "../route";
import { type Page, type Rows, type Snapshot, type SqlAnswer, type SyncInfo, type TableInfo } from "../types";
import { useDefaultBranch } from "../user";
import { isAlike, isNumber, number, plural, text, when } from "../words";
import { DifferenceTable } from "./differences";
import { Edits, quoted, useEdits } from "./edits";
import { RowPanel } from "./row";

const PAGE = 100, HISTORY = 2000, MOST_TABS = 15;

export function DataView({ route }: { route: Route }): JSX.Element {
  const main = useDefaultBranch(), { ref = main, table = "" } = route.given;
  const branches = useBranches(), isBranch = branches.some((branch) => branch.name === ref);
  const tables = useData(`tables ${ref}`, (signal) => get<{ snapshot: string; tables: string[] }>("/v1/tables", { ref }, signal), ["commit", "branch"]);
  const [typed, setTyped] = useState(ref);
  const [, , elsewhere] = useEdits(ref);
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
            {elsewhere.map((branch) => <p class="note" key={branch}>Changes wait to be committed on <a href={to("data", { ref: branch })} dir="auto">{branch}</a>.</p>)}
            {found.tables.length > MOST_TABS ? <Choice label={plural(found.tables.length, "table")} value={table || found.tables[0]} options={found.tables} onChange={(name) => go("data", { ref, table: name })} />
            : <nav class="tabs" aria-label="Tables">{found.tables.map((name) => (
              <a key={name} href={to("data", { ref, table: name })} aria-current={name === (table || found.tables[0]) ? "page" : undefined} dir="auto">{name}</a>))}
            </nav>}
            <TableView key={`${ref} ${table || found.tables[0]}`} at={ref} table={table || found.tables[0]} isBranch={isBranch} given={route.given} />
          </>
        )}
      </Shown>
    </section>
  );
}

interface Sort { column: string; isDown: boolean }

function TableView({ at, table, isBranch, given }: { at: string; table: string; isBranch: boolean; given: Route["given"] }): JSX.Element {
  const [edits, setEdits] = useEdits(at);
  const [where, setWhere] = useState(given.where ?? ""), [filter, setFilter] = useState(given.where ?? "");
  const [sort, setSort] = useState<Sort | undefined>(given.sort ? { column: given.sort, isDown: given.down === "yes" } : undefined);
  const [pages, setPages] = useState<(string | null)[]>([null]);
  const [chosen, setChosen] = useState<{ row: Row; column: string; isNew?: boolean } | null>(null);
  const [past, setPast] = useState<Snapshot | null>(null);
  const ref = past ? `id:${past.id}` : at;
  const info = useData(`table ${ref} ${table}`, (signal) => get<TableInfo>("/v1/table", { table, ref }, signal), ["commit", "branch"]);
  const after = pages[pages.length - 1];
  const rows = useKept(useData(`rows ${ref} ${table} ${filter} ${sort?.column} ${sort?.isDown} ${after}`, async (signal): Promise<Page> => {
    if (!sort) return get<Page>("/v1/rows", { table, ref, where: filter, limit: PAGE, after }, signal);
    // What is alike there is in the order of its key, so that pages do not overlap.
    const { key } = info.data ?? await get<TableInfo>("/v1/table", { table, ref }, signal);
    const skipped = Number(after ?? 0), order = [`${quoted(sort.column)}${sort.isDown ? " DESC" : ""}`, ...key.filter((name) => name !== sort.column).map(quoted)];
    const said = `SELECT * FROM ${quoted(table)}${filter ? ` WHERE ${filter}` : ""} ORDER BY ${order.join(", ")} LIMIT ${PAGE + 1} OFFSET ${skipped}`;
    const answer = await post<SqlAnswer>("/v1/sql", { sql: said, ref });
    return { ...answer, rows: answer.rows.slice(0, PAGE), snapshot: "", next: answer.rows.length > PAGE ? String(skipped + PAGE) : null };
  }, ["commit", "branch"]), ref);
  // Who writes the branch is asked once its rows are seen.
  const isShown = rows.data !== null;
  const syncs = useData(isShown ? "syncs" : "", async (signal) => isShown ? get<{ syncs: SyncInfo[] }>("/v1/syncs", {}, signal) : null, ["sync"]);
  const maker = syncs.data?.syncs.find((sync) => sync.target === at && sync.direction === "forward" && sync.state !== "detached");
  const rights = useRights(), toWrite = isBranch ? rights.on(at, "write") : "";
  const canEdit = isBranch && !past && !maker && !toWrite && (syncs.data !== null || syncs.error !== null);
  const changes = useData(`changes ${past?.id ?? ""} ${table}`, async (signal) => {
    if (!past || !past.parents.length) return null;
    return get<Rows & { more: boolean }>("/v1/diff/rows", { before: `id:${past.parents[0]}`, after: `id:${past.id}`, table, limit: PAGE }, signal);
  }, []);
  const look = (wanted: string, order: Sort | undefined): void => {
    setPages([null]);
    setFilter(wanted);
    setSort(order);
    remember("data", { ref: at, table, where: wanted, sort: order?.column, down: order?.isDown ? "yes" : "" });
  };
  const choose = (column: string): void =>
    look(filter, sort?.column === column ? (sort.isDown ? undefined : { column, isDown: true }) : { column, isDown: false });
  const key = info.data?.key ?? [];
  const isSame = (a: Row, b: Row): boolean => key.every((name) => text(a[name]) === text(b[name]));
  const changed = (found: Row, column: string): boolean => (changes.data?.rows ?? []).some((change) => {
    const now = change._after as Row | null, before = change._before as Row | null;
    return now !== null && isSame(now, found) && (before === null || !isAlike(before[column], now[column]));
  });
  return (
    <>
      <form class="bar" onSubmit={(event) => { event.preventDefault(); look(where, sort); }}>
        <Field label="Only rows where" value={where} onChange={setWhere} placeholder={example(info.data?.columns ?? [])} isWide />
        <button type="submit">Filter</button>
        {filter && <button type="button" onClick={() => { setWhere(""); look("", sort); }}>All rows</button>}
        {info.data && <span class="note">{plural(info.data.row_count, "row")}{filter ? " before the filter" : ""}</span>}
      </form>
      <HistorySlider at={at} table={table} past={past} onChange={(to) => { setPages([null]); setPast(to); }} />
      {past && changes.data && <div class="then" role="region" aria-label="What changed then">
        <p class="note" role="status">{plural(changes.data.rows.length, "row")}{changes.data.more ? " and more" : ""} of {table} changed in <SnapshotLink id={past.id} />: <span dir="auto">{past.message || past.operation}</span>, by <span dir="auto">{past.author}</span></p>
        {changes.data.rows.length > 0 && <DifferenceTable rows={changes.data.rows} keys={key} label={`Rows of ${table} that changed then`} caption={<><del>before</del> <ins>then</ins></>} />}
      </div>}
      <div class="beside">
        <div aria-busy={rows.isOld}>
          <Shown of={rows}>{(page) => page.rows.length
            ? <RowTable columns={page.columns} rows={page.rows} label={`Rows of ${table}`} onRow={(row, column) => setChosen({ row, column })} chosen={chosen?.row} sort={sort} onSort={choose} marked={past ? changed : undefined} />
            : <Nothing><p>{filter ? "No row is like that." : "No rows yet."}</p></Nothing>}
          </Shown>
          <div class="row">
            {pages.length > 1 && <button type="button" onClick={() => setPages(pages.slice(0, -1))}>Back</button>}
            {rows.data?.next && !rows.isOld && <button type="button" onClick={() => setPages([...pages, rows.data?.next ?? null])}>More rows</button>}
            {canEdit && key.length > 0 && info.data && <button type="button" onClick={() => setChosen({ row: emptyRow(info.data?.columns ?? []), column: "", isNew: true })}>New row</button>}
          </div>
          {toWrite && !maker && <p class="note">You may read {at}, and not change it: {toWrite}. Ask who owns the database for it.</p>}
          {maker && !past && <p class="note">Made by the sync <a href={to("syncs", { name: maker.name })} dir="auto">{maker.name}</a>: change {maker.sources.join(", ")}, or detach the sync.</p>}
        </div>
        {chosen && info.data && <RowPanel key={`${JSON.stringify(chosen.row)} ${chosen.column}`} at={ref} info={info.data} row={chosen.row} column={chosen.column} isNew={chosen.isNew ?? false} canEdit={canEdit && key.length > 0} canErase={!rights.everywhere("owner")} makes={maker?.makes ?? ""} isPast={past !== null} isBranch={isBranch} onClose={() => setChosen(null)}
          onEdit={(edit) => { setEdits([...edits.filter((one) => one.table !== table || !isSame(one.key, edit.key)), { ...edit, table, columns: info.data?.columns ?? [] }]); setChosen(null); }} />}
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
  const log = useData(`log ${at} ${table}`, (signal) => get<{ snapshots: Snapshot[] }>("/v1/snapshots", { ref: at, table, limit: HISTORY }, signal), ["commit"]);
  const all = [...(log.data?.snapshots ?? [])].reverse();
  const place = past ? all.findIndex((one) => one.id === past.id) : all.length;
  if (all.length === 0) return <></>;
  const slide = (to: number): void => onChange(to >= all.length ? null : all[Math.max(0, to)]);
  const many = all.length === HISTORY ? `the newest ${number(HISTORY)} changes` : plural(all.length, "change");
  return (
    <div class="bar">
      <label class="slider"><span dir="auto">{past ? `As of ${when(past.time)}, change ${number(place + 1)} of ${many} · ${past.message || past.operation}` : `As of now; slide back through ${many} of ${table}`}</span>
        <input type="range" min={0} max={all.length} value={place} aria-label={`History of ${table}`}
          aria-valuetext={past ? `${when(past.time)}, ${past.message || past.operation}` : "now"}
          onInput={(event) => slide(Number(event.currentTarget.value))} />
      </label>
      <button type="button" aria-disabled={place === 0} onClick={() => slide(place - 1)}>Earlier</button>
      <button type="button" aria-disabled={!past} onClick={() => slide(place + 1)}>Later</button>
      <button type="button" aria-disabled={!past} onClick={() => onChange(null)}>Now</button>
    </div>
  );
}
