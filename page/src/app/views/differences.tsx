// Rows that differ: old beside new, and of many columns those that matter.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { type Row } from "../api";
import { Cell } from "../parts";
import { isAlike, plural, text } from "../words";

const side = (row: Row, name: "_before" | "_after"): Row | null => row[name] as Row | null;

const isSame = (row: Row, column: string): boolean => {
  const before = side(row, "_before"), after = side(row, "_after");
  return before !== null && after !== null && isAlike(before[column], after[column]);
};

/** Rows as a difference tells them; columns in which none of them differ can be left out. */
export function DifferenceTable({ rows, keys, label, caption }: { rows: Row[]; keys: string[]; label: string; caption: JSX.Element }): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  const all = [...new Set(rows.flatMap((row) => Object.keys({ ...side(row, "_before"), ...side(row, "_after") })))];
  const differing = all.filter((column) => keys.includes(column) || rows.some((row) => row._change_type === "update" && !isSame(row, column)));
  const canFold = differing.length < all.length && rows.some((row) => row._change_type === "update");
  const columns = canFold && !isWhole ? differing : all;
  return (
    <>
      {canFold && <label class="tick"><input type="checkbox" checked={isWhole} onChange={() => setWhole(!isWhole)} /> {`all ${plural(all.length, "column")}, also those in which no row was updated`}</label>}
      <div class="scroll" tabIndex={0} role="region" aria-label={label}>
        <table class="rows differences"><caption class="note">{caption}</caption>
          <thead><tr><th scope="col">change</th>{columns.map((column) => <th scope="col" key={column} dir="auto">{column}</th>)}</tr></thead>
          <tbody>{rows.map((row, at) => <Difference key={at} row={row} columns={columns} />)}</tbody></table>
      </div>
    </>
  );
}

function Difference({ row, columns }: { row: Row; columns: string[] }): JSX.Element {
  const before = side(row, "_before"), after = side(row, "_after"), kind = text(row._change_type);
  return (
    <tr class={kind}><th scope="row">{kind}</th>{columns.map((column) => {
      const isEqual = isSame(row, column);
      return <td key={column} class={isEqual ? "" : "changed"}>
        {isEqual ? <Cell value={after?.[column] ?? null} /> : <>{before && <del><Cell value={before[column] ?? null} /></del>} {after && <ins><Cell value={after[column] ?? null} /></ins>}</>}
      </td>;
    })}</tr>
  );
}
