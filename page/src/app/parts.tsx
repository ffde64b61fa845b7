// Parts that all views share: states, tables of rows, dialogs, fields.
import { type ComponentChildren, type JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { asFailure, type Column, type Failure, type Row, type Value } from "./api";
import { useReturnedFocus } from "./focus";
import { type Loaded } from "./live";
import { refusedWords } from "./rights";
import { to } from "./route";
import { isNumber, number, short, text, when } from "./words";

const ADVICE: Record<string, string> = {
  no_connection: "Is the server running? The page tries again by itself.",
  unauthenticated: "Log in again with your token.",
  forbidden: "Ask who owns the database for this right.",
  not_found: "It may have been dropped or renamed, or you may not read it.",
  forgotten: "Retention let it go; a newer snapshot may still be there.",
  transaction_conflict: "Somebody else changed the same rows meanwhile. Look at what they did, then try again.",
  merge_conflict: "Both sides changed the same rows: choose whose values count.",
  locked: "Somebody else is at work on it; try again in a moment.",
  too_many_requests: "Wait a moment, then try again.",
  limit_exceeded: "Wait a moment, or ask for less at once.",
  already_exists: "Choose another name.",
  duplicate_key: "A row with this key is there already: change that one, or choose another key.",
  read_only_branch: "A sync writes this branch: change its source, or detach the sync first.",
  rule_violation: "Look at what the rule found, mend it, or ask who maintains the branch.",
  untrusted: "Who runs the server can trust it when the database is opened.",
  storage_failure: "Is the disk full or gone? What was committed is safe; tell who runs the server.",
  corruption: "Tell who runs the server: livingdb check says what is damaged.",
  internal: "Tell who runs the server the number: the log has more under it.",
};

/** What went wrong, and what to do next. */
export function Problem({ error, retry }: { error: Failure; retry?: () => void }): JSX.Element {
  const title = error.status === 403 ? "No right to do this"
    : error.status === 401 ? "You are not logged in any more"
    : error.code === "no_connection" ? "No connection"
    : error.code === "stopped" ? "You stopped waiting"
    : error.status === 404 || error.status === 410 ? "Not there"
    : error.status === 409 ? "Something stands in the way" : "This did not work";
  return (
    <div class="problem" role="alert">
      <h3>{title}</h3>
      <p dir="auto">{error.message}</p>
      {ADVICE[error.code] && <p class="note">{ADVICE[error.code]}</p>}
      {error.status === 401 ? <button type="button" onClick={() => location.reload()}>Log in</button>
        : retry && <button type="button" onClick={retry}>Try again</button>}
    </div>
  );
}

/** Data, or what there is in place of them. */
export function Shown<T>({ of, children }: { of: Loaded<T>; children: (data: T) => ComponentChildren }): JSX.Element {
  if (of.data !== null)
    return <>{of.error && <Problem error={of.error} retry={of.reload} />}{children(of.data)}</>;
  if (of.error) return <Problem error={of.error} retry={of.reload} />;
  return <p class="waiting" role="status">Loading…</p>;
}

/** What is not offered to who is logged in, and which right that takes. */
export function NotOffered({ of }: { of: [words: string, refusal: string][] }): JSX.Element {
  return <>{refusedWords(of).map((words) => <p class="note refused" dir="auto" key={words}>{words}</p>)}</>;
}

export function Nothing({ children }: { children: ComponentChildren }): JSX.Element {
  return <div class="nothing">{children}</div>;
}

export function Heading({ title, note, children }: { title: string; note?: string; children?: ComponentChildren }): JSX.Element {
  return (
    <header class="view">
      <div><h2 tabIndex={-1} id="view-title">{title}</h2>{note && <p class="note">{note}</p>}</div>
      <div class="tools">{children}</div>
    </header>
  );
}

export function SnapshotLink({ id }: { id: string }): JSX.Element {
  return <a class="id" href={to("graph", { at: id })} title={id}>{short(id)}</a>;
}

export function Time({ of }: { of: string }): JSX.Element {
  return <time dateTime={of}>{when(of)}</time>;
}

export function State({ of }: { of: string }): JSX.Element {
  return <span class={`state ${of}`}>{of}</span>;
}

const MOST_LETTERS = 400, MANY_LETTERS = 60, SOME_LETTERS = 24;

/** A value; what is very long is cut, and says how long it is. */
export function Cell({ value }: { value: Value }): JSX.Element {
  if (value === null || value === undefined) return <i class="null">null</i>;
  const said = text(value);
  if (said === "") return <i class="null" title="an empty text">''</i>;
  if (/^\d{4}-\d\d-\d\d(T[\d:.]+Z?)?$/.test(said)) return <time class="value">{said}</time>;
  const style = said.length > MANY_LETTERS ? "many" : said.length > SOME_LETTERS ? "some" : undefined;
  if (said.length <= MOST_LETTERS) return <span dir="auto" class={style}>{said}</span>;
  return <span dir="auto" class={style}>{said.slice(0, MOST_LETTERS)}… <i class="null">{number(said.length)} letters</i></span>;
}

/** A value as it is, however long. */
export function WholeCell({ value }: { value: Value }): JSX.Element {
  const said = text(value);
  return said.length > MOST_LETTERS ? <span class="whole" dir="auto">{said}</span> : <Cell value={value} />;
}

/** A table that may be wider than a phone: it scrolls by itself, by keyboard too. */
export function Wide({ label, children }: { label: string; children: ComponentChildren }): JSX.Element {
  return <div class="wide" tabIndex={0} role="region" aria-label={label}>{children}</div>;
}

/** A long name, which may be broken after what joins its words. */
function Breakable({ words }: { words: string }): JSX.Element {
  return <span dir="auto">{words.split(/(?<=[_./-])/).map((part, at) => <>{at > 0 && <wbr />}{part}</>)}</span>;
}

interface RowTable {
  columns: Column[];
  rows: Row[];
  label: string;
  onRow?: (row: Row, column: string) => void;
  chosen?: Row | null;
  sort?: { column: string; isDown: boolean };
  onSort?: (column: string) => void;
  marked?: (row: Row, column: string) => boolean;
  shown?: (row: Row, column: string) => JSX.Element | null;
}

/** Rows with their columns; a row can be chosen, and a column sorted by; `shown` is in place of a value, where it is not null. */
export function RowTable({ columns, rows, label, onRow, chosen, sort, onSort, marked, shown }: RowTable): JSX.Element {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class={onRow ? "rows chosen-by" : "rows"}>
        <thead><tr>{columns.map((column) => (
          <th scope="col" key={column.name} class={isNumber(column.type) ? "number" : undefined} aria-sort={sort?.column === column.name ? (sort.isDown ? "descending" : "ascending") : undefined}>
            {onSort
              ? <button type="button" class="plain" onClick={() => onSort(column.name)}><Breakable words={column.name} />{sort?.column === column.name ? (sort.isDown ? " ↓" : " ↑") : ""}</button>
              : <Breakable words={column.name} />}
            <small title={column.type}>{column.type.length > 28 ? column.type.slice(0, 26) + "…" : column.type}</small>
          </th>))}</tr></thead>
        <tbody>{rows.map((row, at) => (
          <tr key={at} class={row === chosen ? "chosen" : undefined}>{columns.map((column, place) => (
            <td key={column.name} onClick={onRow && ((event) => { if (!(event.target as Element).closest("button") && !getSelection()?.toString()) onRow(row, column.name); })} class={`${isNumber(column.type) ? "number" : ""} ${marked?.(row, column.name) ? "changed" : ""}`}>
              {place === 0 && onRow
                ? <button type="button" class="plain" aria-label={`Look at ${text(row[column.name])}`} onClick={() => onRow(row, column.name)}><Cell value={row[column.name]} /></button>
                : shown?.(row, column.name) ?? <Cell value={row[column.name]} />}
            </td>))}</tr>))}
        </tbody>
      </table>
    </div>
  );
}

interface Choice { label: string; value: string; options: readonly (string | [value: string, words: string])[]; onChange: (value: string) => void }

export function Choice({ label, value, options, onChange }: Choice): JSX.Element {
  return (
    <label class="field"><span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map((option) => {
          const [name, words] = typeof option === "string" ? [option, option] : option;
          return <option value={name} key={name}>{words}</option>;
        })}
      </select>
    </label>
  );
}

interface Field { label: string; value: string; onChange: (value: string) => void; placeholder?: string; required?: boolean; list?: string; isSecret?: boolean; isWide?: boolean; problem?: string }

/** A text to type; `problem` is what is wrong with it, and has the focus once it is told. */
export function Field({ label, value, onChange, placeholder, required, list, isSecret, isWide, problem }: Field): JSX.Element {
  const box = useRef<HTMLInputElement>(null), told = useId();
  useEffect(() => { if (problem) box.current?.focus(); }, [problem]);
  return (
    <><label class={isWide ? "field broad" : "field"}><span>{label}</span>
      {isSecret
        ? <input type="password" value={value} required={required} autocomplete="off" onInput={(event) => onChange(event.currentTarget.value)} />
        : <input ref={box} type="text" value={value} placeholder={placeholder} required={required} list={list} autocomplete="off" spellcheck={false}
            aria-invalid={problem ? true : undefined} aria-describedby={problem ? told : undefined} onInput={(event) => onChange(event.currentTarget.value)} />}
    </label>
    {problem && <p class="bad problem-at" id={told} role="alert" dir="auto">{problem}</p>}</>
  );
}

interface Dialog { title: string; action: string; isDanger?: boolean; onClose: () => void; onDone: () => Promise<unknown>; isTold?: (failure: Failure) => boolean; children: ComponentChildren }

/** A question with an answer that does something; what goes wrong is told in it, if `isTold` does not say that a field tells it. */
export function Dialog({ title, action, isDanger, onClose, onDone, isTold, children }: Dialog): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  const [error, setError] = useState<Failure | null>(null);
  const [isBusy, setBusy] = useState(false);
  useReturnedFocus();
  useEffect(() => { box.current?.showModal(); }, []);
  const done = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    setError(null);
    try {
      await onDone();
      onClose();
    } catch (thrown) {
      const failure = asFailure(thrown);
      if (!isTold?.(failure)) setError(failure);
      setBusy(false);
    }
  };
  return (
    <dialog ref={box} onClose={onClose} aria-labelledby="dialog-title">
      <form onSubmit={(event) => void done(event)}>
        <h3 id="dialog-title">{title}</h3>
        {children}
        {error && <Problem error={error} />}
        <div class="row end">
          <button type="button" onClick={() => box.current?.close()}>Cancel</button>
          <button type="submit" class={isDanger ? "danger" : "main"} aria-disabled={isBusy}>{isBusy ? "Working…" : action}</button>
        </div>
      </form>
    </dialog>
  );
}

/** A button that does something on the server, and tells where it fails. */
export function Act({ words, act, isMain, isOff, onDone }: { words: string; act: () => Promise<unknown>; isMain?: boolean; isOff?: boolean; onDone?: () => void }): JSX.Element {
  const [error, setError] = useState<Failure | null>(null);
  const [isBusy, setBusy] = useState(false);
  const run = async (): Promise<void> => {
    if (isBusy) return;
    setBusy(true);
    setError(null);
    try {
      await act();
      onDone?.();
    } catch (failure) {
      setError(asFailure(failure));
    }
    setBusy(false);
  };
  return (
    <>
      <button type="button" class={isMain ? "main" : undefined} disabled={isOff} aria-disabled={isBusy} onClick={() => void run()}>{isBusy ? "Working…" : words}</button>
      {error && <Problem error={error} />}
    </>
  );
}
