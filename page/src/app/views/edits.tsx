// Changes to rows: gathered, held against what others did meanwhile, and committed together.
import { type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Failure, post, remove, type Column, type Row, type Value } from "../api";
import { Act, Cell, Field } from "../parts";
import { type SqlAnswer } from "../types";
import { isAlike, plural, text } from "../words";

/** A row as it was and as it shall be; null where there is none. */
export type Edit = { table: string; columns: Column[]; key: Row; before: Row | null; after: Row | null };

export const quoted = (name: string): string => "`" + name.replaceAll("`", "``") + "`";

interface Parameter { type: string; value: Value }
interface Said { sql: string; parameters: Parameter[] }

/** A value that was typed, as JSON has it for the type of its column. */
function typed(value: Value, type: string): Value {
  if (typeof value !== "string" || !isNested(type)) return value;
  try {
    return JSON.parse(value) as Value;
  } catch {
    throw new Failure("invalid_data", `${value} is no JSON: type a value of ${type} as it is shown.`, 422);
  }
}

const isNested = (type: string): boolean => /^(array|struct|map)</.test(type);
const hasParts = (type: string): boolean => /(struct|map)</.test(type);

/** Where a value stands in a statement: what has named parts is read from JSON there. */
const place = ({ type }: Column): string => hasParts(type) ? `from_json(?, '${type}')` : "?";

/** An empty field means that there is no value, but where a value can be empty. */
const meant = (value: Value, column: Column): Value => value === "" && column.type !== "string" && column.type !== "binary" && column.nullable ? null : value;

/** The columns that a change gives another value. */
export const changesOf = ({ before, after }: Pick<Edit, "before" | "after">, columns: Column[]): Column[] =>
  columns.filter((column) => !isAlike(meant(after?.[column.name] ?? null, column), before?.[column.name]));

function parameter(column: Column, from: Row): Parameter {
  const type = column.type.replace(/\[.*\]$/, "");
  const value = typed(meant(from[column.name] ?? null, column), type);
  if (!hasParts(type) || value === null) return { type: hasParts(type) ? "string" : type, value };
  const pairs = type.startsWith("map<") && Array.isArray(value) ? Object.fromEntries(value as [string, Value][]) : value;
  return { type: "string", value: JSON.stringify(pairs) };
}

const keyColumns = (edit: Edit): Column[] => edit.columns.filter(({ name }) => name in edit.key);

/** What finds the row of a change. */
const matching = (edit: Edit): Said => ({
  sql: keyColumns(edit).map(({ name }) => `${quoted(name)} = ?`).join(" AND "),
  parameters: keyColumns(edit).map((column) => parameter(column, edit.key)),
});

/** What a change says in SQL; values go beside it, each with its type. */
function statement(edit: Edit): Said {
  const { after } = edit, match = matching(edit), into = quoted(edit.table);
  if (after === null) return { sql: `DELETE FROM ${into} WHERE ${match.sql}`, parameters: match.parameters };
  const set = changesOf(edit, edit.columns), given = set.map((column) => parameter(column, after));
  if (edit.before === null)
    return { sql: `INSERT INTO ${into} (${set.map(({ name }) => quoted(name)).join(", ")}) VALUES (${set.map(place).join(", ")})`, parameters: given };
  return { sql: `UPDATE ${into} SET ${set.map((column) => `${quoted(column.name)} = ${place(column)}`).join(", ")} WHERE ${match.sql}`, parameters: [...given, ...match.parameters] };
}

/** What a change does, as people say it. */
function EditWords({ of }: { of: Edit }): JSX.Element {
  const row = <><b dir="auto">{Object.values(of.key).map(text).join(", ")}</b> of <span dir="auto">{of.table}</span></>;
  if (of.after === null) return <>delete {row}</>;
  const { before, after } = of;
  return (
    <>{before ? "change" : "add"} {row}: {changesOf(of, of.columns).map((column, at) => (
      <span key={column.name}>{at > 0 && ", "}<span dir="auto">{column.name}</span> {before && <del><Cell value={before[column.name]} /></del>} <ins><Cell value={meant(after[column.name] ?? null, column)} /></ins></span>))}</>
  );
}

// Changes wait here while one looks at other tables, branches and views.
const waiting = new Map<string, Edit[]>();
const watchers = new Set<() => void>();

function warn(event: BeforeUnloadEvent): void {
  event.preventDefault();
}

function setEdits(branch: string, edits: Edit[]): void {
  if (edits.length) waiting.set(branch, edits); else waiting.delete(branch);
  window.removeEventListener("beforeunload", warn);
  if (waiting.size) window.addEventListener("beforeunload", warn);
  for (const watcher of watchers) watcher();
}

/** The changes that wait to be committed on a branch, and the other branches that have some. */
export function useEdits(branch: string): [edits: Edit[], set: (edits: Edit[]) => void, elsewhere: string[]] {
  const [, look] = useState(0);
  useEffect(() => {
    const watcher = (): void => look((turn) => turn + 1);
    watchers.add(watcher);
    return () => { watchers.delete(watcher); };
  }, []);
  return [waiting.get(branch) ?? [], (edits) => setEdits(branch, edits), [...waiting.keys()].filter((name) => name !== branch)];
}

interface Clash { edit: Edit; now: Row | null }

/** Rows that are not any more as they were when they were edited. */
async function clashesOf(said: string, edits: Edit[]): Promise<Clash[]> {
  const found: Clash[] = [];
  for (const edit of edits) {
    const { before } = edit;
    if (before === null) continue;
    const match = matching(edit);
    const { rows } = await post<SqlAnswer>(`${said}/statements`, { ...match, sql: `SELECT * FROM ${quoted(edit.table)} WHERE ${match.sql}` });
    const now = rows[0] ?? null;
    const isSame = now !== null && edit.columns.every(({ name }) => isAlike(now[name], before[name]));
    if (!isSame) found.push({ edit, now });
  }
  return found;
}

/** Changes that wait to be committed, all in one transaction; nobody else's is overwritten unasked. */
export function Edits({ branch, edits, onChange }: { branch: string; edits: Edit[]; onChange: (edits: Edit[]) => void }): JSX.Element {
  const [message, setMessage] = useState(""), [clashes, setClashes] = useState<Clash[]>([]);
  const commit = async (): Promise<void> => {
    setClashes([]);
    const session = await post<{ id: string }>("/v1/sql/sessions", { branch });
    const said = `/v1/sql/sessions/${session.id}`;
    try {
      await post(`${said}/statements`, { sql: "BEGIN", message });
      const found = await clashesOf(said, edits);
      if (found.length) { setClashes(found); return; }
      for (const edit of edits) await post(`${said}/statements`, statement(edit));
      await post(`${said}/statements`, { sql: "COMMIT" });
    } finally {
      await remove(said, {});
    }
    onChange([]);
  };
  const settle = (clash: Clash, isMine: boolean): void => {
    setClashes(clashes.filter((one) => one !== clash));
    onChange(edits.flatMap((one) => one !== clash.edit ? [one] : isMine ? mine(clash) : []));
  };
  return (
    <div class="edits" role="region" aria-label="Changes to commit">
      <h3>{plural(edits.length, "change")} in one transaction on {branch}</h3>
      <ul>{edits.map((edit, at) => <li key={at}><EditWords of={edit} /> <button type="button" onClick={() => onChange(edits.filter((one) => one !== edit))}>Leave out</button></li>)}</ul>
      {clashes.length > 0 && <div class="problem" role="alert">
        <h3>Somebody else changed {plural(clashes.length, "of these rows", "of these rows")} meanwhile</h3>
        <p class="note">Nothing was written. Say for each what shall count, then commit again.</p>
        <ul class="plainlist">{clashes.map((clash, at) => (
          <li key={at}><b dir="auto">{Object.values(clash.edit.key).map(text).join(", ")}</b> {clashWords(clash)}{" "}
            <button type="button" onClick={() => settle(clash, true)}>Keep mine</button>{" "}
            <button type="button" onClick={() => settle(clash, false)}>Take theirs</button></li>))}</ul>
      </div>}
      <div class="row"><Field label="Message" value={message} onChange={setMessage} />
        <Act words="Commit" isMain act={commit} />
        <button type="button" onClick={() => onChange([])}>Forget all</button></div>
    </div>
  );
}

/** A change that stays wanted, of the row as it is now. */
function mine({ edit, now }: Clash): Edit[] {
  if (now !== null) return [{ ...edit, before: now }];
  return edit.after === null ? [] : [{ ...edit, before: null, after: { ...edit.before, ...edit.after, ...edit.key } }];
}

function clashWords({ edit, now }: Clash): string {
  if (now === null) return "was deleted.";
  const { before } = edit;
  const told = (value: Value): string => value === null ? "null" : text(value) || "''";
  return edit.columns.filter(({ name }) => !isAlike(now[name], before?.[name]))
    .map(({ name }) => `${name} was ${told(before?.[name] ?? null)} and is ${told(now[name] ?? null)} now`).join(", ") + ".";
}
