// What a row goes into: the rows of views, clones and models that would change if it did.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { get, type Row, type Value } from "../api";
import { useData } from "../live";
import { Shown } from "../parts";
import { useBranches } from "../refs";
import { to } from "../route";
import { type ForwardLineage } from "../types";
import { plural, text } from "../words";
import { quoted } from "./edits";

const MOST_ROWS = 20;

interface Asked { at: string; table: string; keys: string[] }

/** What would change with a row; asked once somebody wants to know. */
export function GoesInto({ at, table, keys }: Asked): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}><summary>What it goes into</summary>
      {isOpen && <ObjectList at={at} table={table} keys={keys} />}</details>
  );
}

const literal = (value: Value): string => typeof value === "number" || typeof value === "boolean" ? String(value) : `'${text(value).replaceAll("'", "''")}'`;

/** What finds a row by the values that are told of it. */
const finding = (row: Row): string =>
  Object.entries(row).map(([name, value]) => value === null ? `${quoted(name)} IS NULL` : `${quoted(name)} = ${literal(value)}`).join(" AND ");

function ObjectList({ at, table, keys }: Asked): JSX.Element {
  const names = new Set(useBranches().map(({ name }) => name));
  const found = useData(`goes into ${at} ${table} ${keys.join()}`, (signal) => get<ForwardLineage>("/v1/lineage/forward", { table, ref: at, key: keys }, signal), ["commit", "sync"]);
  /** An object with several tables is named with the one that is meant. */
  const placeOf = (object: string): { ref: string; table?: string } => {
    const dot = object.lastIndexOf(".");
    return names.has(object) || dot < 1 ? { ref: object } : { ref: object.slice(0, dot), table: object.slice(dot + 1) };
  };
  return (
    <Shown of={found}>{({ objects, whole, more }) => {
      const every = Object.entries(objects).filter(([name, rows]) => rows.length > 0 && !whole.includes(name));
      if (every.length + whole.length === 0) return <p class="note">Nothing is made from it.</p>;
      return (
        <>
          {every.map(([name, rows]) => (
            <div key={name}><p><a href={to("data", placeOf(name))} dir="auto">{name}</a> <span class="note">{plural(rows.length, "row")}{more.includes(name) ? " and more" : ""}</span></p>
              <ul class="plainlist">{rows.slice(0, MOST_ROWS).map((row, place) => (
                <li key={place}><a href={to("data", { ...placeOf(name), where: finding(row) })} dir="auto">{Object.entries(row).map(([column, value]) => `${column} ${value === null ? "null" : text(value)}`).join(", ")}</a></li>))}</ul>
              {rows.length > MOST_ROWS && <p class="note">The first {MOST_ROWS} are shown.</p>}</div>))}
          {whole.map((name) => <p key={name}><a href={to("data", placeOf(name))} dir="auto">{name}</a> <span class="note">any row of it may depend on this one</span></p>)}
        </>
      );
    }}</Shown>
  );
}
