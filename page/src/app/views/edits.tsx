// Changes to rows: gathered, held against what others did meanwhile, and committed together.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { post, remove, type Column, type Row, type Value } from "../api";
import { Act, Field } from "../parts";
import { type SqlAnswer } from "../types";
import { plural, text } from "../words";

/** A row as it was and as it shall be; null where there is none. */
export type Edit = { table: string; columns: Column[]; key: Row; before: Row | null; after: Row | null };

export const quoted = (name: string): string => "`" + name.replaceAll("`", "``") + "`";

/** A value in SQL, of the type of its column. */
function literal(value: Value, type: string): string {
  if (value === null) return "NULL";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  const said = `'${text(value).replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  return type === "string" ? said : `CAST(${said} AS ${type.replace(/\[.*\]$/, "")})`;
}

const typedIn = (edit: Edit) => (name: string, value: Value): string =>
  literal(value, edit.columns.find((column) => column.name === name)?.type ?? "string");

/** What finds the row of a change. */
const matching = (edit: Edit): string =>
  Object.entries(edit.key).map(([name, value]) => `${quoted(name)} = ${typedIn(edit)(name, value)}`).join(" AND ");

/** What a change says in SQL. */
function statement(edit: Edit): string {
  const typed = typedIn(edit), match = matching(edit);
  if (edit.after === null) return `DELETE FROM ${quoted(edit.table)} WHERE ${match}`;
  if (edit.before === null) {
    const given = Object.entries(edit.after).filter(([, value]) => value !== null);
    return `INSERT INTO ${quoted(edit.table)} (${given.map(([name]) => quoted(name)).join(", ")}) VALUES (${given.map(([name, value]) => typed(name, value)).join(", ")})`;
  }
  const before = edit.before;
  const set = Object.entries(edit.after).filter(([name, value]) => text(value) !== text(before[name]) || (value === null) !== (before[name] === null));
  return `UPDATE ${quoted(edit.table)} SET ${set.map(([name, value]) => `${quoted(name)} = ${typed(name, value)}`).join(", ")} WHERE ${match}`;
}

interface Clash { edit: Edit; now: Row | null }

/** Rows that are not any more as they were when they were edited. */
async function clashesOf(said: string, edits: Edit[]): Promise<Clash[]> {
  const found: Clash[] = [];
  for (const edit of edits) {
    const { before } = edit;
    if (before === null) continue;
    const { rows } = await post<SqlAnswer>(`${said}/statements`, { sql: `SELECT * FROM ${quoted(edit.table)} WHERE ${matching(edit)}` });
    const now = rows[0] ?? null;
    const isSame = now !== null && edit.columns.every(({ name }) => text(now[name]) === text(before[name]) && (now[name] === null) === (before[name] === null));
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
      for (const edit of edits) await post(`${said}/statements`, { sql: statement(edit) });
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
      <ul>{edits.map((edit, at) => <li key={at}><code dir="auto">{statement(edit)}</code> <button type="button" onClick={() => onChange(edits.filter((one) => one !== edit))}>Leave out</button></li>)}</ul>
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
  return edit.columns.filter(({ name }) => text(now[name]) !== text(before?.[name] ?? null))
    .map(({ name }) => `${name} was ${text(before?.[name] ?? null) || "null"} and is ${text(now[name]) || "null"} now`).join(", ") + ".";
}
