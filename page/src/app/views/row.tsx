// One row: its values and who wrote each, its history, and the rows that it was made from.
import { type JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, type Column, type Row, type Value } from "../api";
import { useReturnedFocus } from "../focus";
import { useData } from "../live";
import { Cell, Problem, RowTable, Shown, SnapshotLink, Time, WholeCell } from "../parts";
import { to } from "../route";
import { type Lineage, type Rows, type TableInfo } from "../types";
import { isAlike, plural, refName, text, when } from "../words";
import { changesOf, type Edit } from "./edits";
import { GoesInto } from "./goes_into";
import { EraseDialog, Places } from "./row_places";

const MOST_STEPS = 50, MOST_ROWS = 50;

interface RowPanelProps {
  at: string; info: TableInfo; row: Row; column: string; isNew: boolean; canEdit: boolean; canErase: boolean; makes: string; isPast: boolean; isBranch: boolean;
  onClose: () => void; onEdit: (edit: Omit<Edit, "table" | "columns">) => void;
}

export function RowPanel({ at, info, row, column, isNew, canEdit, canErase, makes, isPast, isBranch, onClose, onEdit }: RowPanelProps): JSX.Element {
  const isKnown = !isNew && info.key.length > 0;  // A row without a key is one of those like it.
  const [values, setValues] = useState<Record<string, string | null>>(
    Object.fromEntries(info.columns.map(({ name }) => [name, row[name] === null ? null : text(row[name])])));
  const [isUnchanged, setUnchanged] = useState(false), [isErased, setErased] = useState(false);
  const key = info.key.map((name) => text(row[name]));
  const panel = useRef<HTMLElement>(null);
  useReturnedFocus();
  useEffect(() => {
    panel.current?.focus({ preventScroll: true });
    // On a small screen it is below the rows.
    if (window.matchMedia("(max-width: 720px)").matches) panel.current?.scrollIntoView({ block: "start" });
  }, []);
  const blame = useData(!isKnown ? "" : `blame ${at} ${info.name} ${key.join()}`, async (signal) =>
    !isKnown ? null : get<Rows>("/v1/blame", { table: info.name, ref: at, key, columns: true }, signal), ["commit"]);
  const keyOf = (found: Record<string, Value>): Row => Object.fromEntries(info.key.map((name) => [name, found[name]]));
  const take = (event: Event): void => {
    event.preventDefault();
    const edit = { key: isNew ? keyOf(values) : keyOf(row), before: isNew ? null : row, after: values };
    if (!isNew && changesOf(edit, info.columns).length === 0) setUnchanged(true);
    else onEdit(edit);
  };
  const set = (name: string, value: string | null): void => { setUnchanged(false); setValues({ ...values, [name]: value }); };
  const isView = makes !== "" && at === info.name && !isNew;  // a derived object is a branch of its own name
  return (
    <><aside class={isView ? "side more" : "side"} aria-label="Row" ref={panel} tabIndex={-1} onKeyDown={(event) => { if (event.key === "Escape") onClose(); }}>
      <header><h3 dir="auto">{isNew ? "New row" : isKnown ? key.join(", ") : `A row of ${info.name}`}</h3><button type="button" class="close" aria-label="Close" onClick={onClose}>×</button></header>
      {isView && <MadeFrom view={info.name} keys={key} column={column} />}
      {isPast && makes === "view" && <p class="note">The rows behind a row are told of the newest version: slide to now.</p>}
      <form onSubmit={take}>
        {info.columns.map((each) => {
          const canType = canEdit && (isNew || !info.key.includes(each.name));
          const wrote = blame.data?.rows.find((one) => one.column === each.name);
          return (
            <div class="value" key={each.name}>
              <label class="field"><span dir="auto">{each.name} <small>{each.type}{info.key.includes(each.name) ? " · key" : ""}</small></span>
                {canType ? <Input of={each} value={values[each.name]} onChange={(value) => set(each.name, value)} /> : <output><WholeCell value={row[each.name]} /></output>}
              </label>
              {wrote && <small class="note">by <span dir="auto">{text(wrote.author)}</span> · <a href={to("graph", { at: text(wrote.snapshot) })} title={text(wrote.message)}>{when(text(wrote.time))}</a></small>}
            </div>);
        })}
        {isUnchanged && <p class="note" role="status">Nothing is different yet: type another value first.</p>}
        {canEdit && <div class="row"><button type="submit" class="main">{isNew ? "Add to changes" : "Change"}</button>
          {!isNew && <button type="button" class="danger" onClick={() => onEdit({ key: keyOf(row), before: row, after: null })}>Delete</button>}</div>}
      </form>
      {isKnown && <History at={at} info={info} keys={key} />}
      {isKnown && isBranch && !isPast && <Places branch={at} table={info.name} keys={key} />}
      {isKnown && <GoesInto at={at} table={info.name} keys={key} />}
      {isKnown && canEdit && canErase && <p><button type="button" class="danger" onClick={() => setErased(true)}>Erase for good…</button></p>}
    </aside>
    {isErased && <EraseDialog branch={at} table={info.name} keyValues={info.key.map((name) => row[name])} onClose={() => setErased(false)} />}</>
  );
}

/** What a value is typed into: texts may have many lines, and what is true or false is chosen. */
function Input({ of, value, onChange }: { of: Column; value: string | null; onChange: (value: string | null) => void }): JSX.Element {
  const isLong = of.type === "string" && value !== null && (value.length > 40 || value.includes("\n"));
  const given = { placeholder: value === null ? "null" : "", value: value ?? "" };
  return (
    <span class="row">
      {of.type === "boolean"
        ? <select value={value ?? ""} onChange={(event) => onChange(event.currentTarget.value || null)}>{(value === null || of.nullable) && <option value="">null</option>}<option>true</option><option>false</option></select>
        : isLong ? <textarea rows={4} {...given} onInput={(event) => onChange(event.currentTarget.value)} />
        : <input type="text" {...given} onInput={(event) => onChange(event.currentTarget.value)} />}
      {of.nullable && of.type !== "boolean" && <button type="button" aria-label={`${of.name} is null`} aria-pressed={value === null} onClick={() => onChange(null)}>null</button>}
    </span>
  );
}

/** Every value that a row has had, each step with what it changed. */
function History({ at, info, keys }: { at: string; info: TableInfo; keys: string[] }): JSX.Element {
  const found = useData(`history ${at} ${info.name} ${keys.join()}`, (signal) =>
    get<Rows>("/v1/history", { table: info.name, ref: at, key: keys }, signal), ["commit"]);
  return (
    <><h4>History</h4>
      <Shown of={found}>{({ rows }) => (
        <><ol class="trail">{rows.slice(0, MOST_STEPS).map((one, place) => (
          <li key={place}><b>{text(one._change_type)}</b> by {text(one.author)} · <Time of={text(one.time)} /> <SnapshotLink id={text(one.snapshot)} /><br /><span dir="auto">{text(one.message)}</span>
            <Step now={one} before={rows[place + 1]} columns={info.columns} /></li>))}</ol>
          {rows.length > MOST_STEPS && <p class="note">The newest {MOST_STEPS} of {rows.length} are shown.</p>}</>
      )}</Shown></>
  );
}

function Step({ now, before, columns }: { now: Row; before: Row | undefined; columns: Column[] }): JSX.Element {
  if (now._change_type !== "update" || !before) return <></>;
  const differing = columns.filter(({ name }) => !isAlike(now[name], before[name]));
  return <ul class="plainlist">{differing.map(({ name }) => (
    <li key={name}><span dir="auto">{name}</span>: <del><Cell value={before[name]} /></del> <ins><Cell value={now[name]} /></ins></li>))}</ul>;
}

/** The columns of source rows, those first that a value comes from. */
function columnsOf(table: string, rows: Row[], behind: string[]): Column[] {
  const all = Object.keys(rows[0] ?? {}).filter((one) => !one.startsWith("_")), wanted = all.filter((one) => behind.includes(`${table}.${one}`));
  return [...wanted, ...all.filter((one) => !wanted.includes(one))].map((name) => ({ name, type: "", nullable: true }));
}

const NO_ROWS: Lineage = { snapshot: "", tables: {}, snapshots: {}, branches: {}, whole: [] };

/** The rows behind a row of a view, and the columns behind the cell that was chosen. */
function MadeFrom({ view, keys, column }: { view: string; keys: string[]; column: string }): JSX.Element {
  const hasKey = keys.length > 0;
  const rows = useData(`lineage ${view} ${keys.join()}`, async (signal) => hasKey ? get<Lineage>("/v1/lineage", { view, key: keys }, signal) : NO_ROWS, []);
  const columns = useData(`columns ${view}`, (signal) => get<{ columns: Record<string, string[]> }>("/v1/lineage/columns", { view }, signal), []);
  if (rows.error) return <Problem error={rows.error} />;
  if (!rows.data) return <p class="note" role="status">Looking for the rows behind it…</p>;
  const behind = columns.data?.columns[column] ?? [], tables = Object.entries(rows.data.tables);
  if (!tables.length && !rows.data.whole.length && hasKey) return <></>;
  return (
    <><h4>Made from</h4>
      {behind.length > 0 && <p><b dir="auto">{column}</b> comes from <span dir="auto">{behind.join(", ")}</span>.</p>}
      {!hasKey && <p class="note">{view} has no key that tells its rows apart: which rows this one was made from, and who changed it, is not told here.</p>}
      {rows.data.whole.map((name) => <p class="note" key={name}>Any row of {name} may matter.</p>)}
      {tables.map(([name, found]) => {
        const source = rows.data?.snapshots[name] ?? text(found[0]?._snapshot ?? null);
        return (
          <details key={name} open={tables.length === 1}><summary>{name}: {plural(found.length, "row")}</summary>
            <RowTable label={`Rows of ${name} behind this row`} columns={columnsOf(name, found, behind)}
              rows={found.slice(0, MOST_ROWS)} marked={(_, one) => behind.includes(`${name}.${one}`)} />
            {found.length > MOST_ROWS && <p class="note">The first {MOST_ROWS} are shown.</p>}
            {source && <p class="note"><a href={to("data", { ref: source, table: name.split(".").at(-1) })}>{name} as it was then</a>, in {refName(source)}</p>}
          </details>);
      })}</>
  );
}
