// Numbers, times and values as people read them.
import { type Value } from "./api";

export const number = (value: number): string => value.toLocaleString("en");

const UNITS = ["B", "KB", "MB", "GB", "TB"];

export function bytes(value: number): string {
  let size = value, unit = 0;
  while (size >= 1000 && unit < UNITS.length - 1) { size /= 1000; unit += 1; }
  return `${unit && size < 100 ? size.toFixed(1) : Math.round(size)} ${UNITS[unit]}`;
}

export function duration(seconds: number | null): string {
  if (seconds === null) return "";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  for (const [size, unit] of [[86400, "day"], [3600, "hour"], [60, "minute"]] as const)
    if (seconds >= size) {
      const count = Math.floor(seconds / size);
      return `${count} ${unit}${count === 1 ? "" : "s"}`;
    }
  return `${Math.round(seconds)} s`;
}

export const when = (time: string): string => time.replace("T", " ").replace(/(\.\d+)?(Z|\+00:00)$/, "") + " UTC";
export const short = (id: string): string => id.slice(0, 10);

/** A ref as people read it: an id is cut short. */
export const refName = (ref: string): string => (/^(id:)?[0-9a-f]{40,}$/.test(ref) ? short(ref.replace("id:", "")) : ref);

export const isNumber = (type: string): boolean => /^(tinyint|smallint|int|bigint|float|double|decimal)/.test(type);

export const plural = (count: number, one: string, many = one + "s"): string =>
  `${number(count)} ${count === 1 ? one : many}`;

/** A value of a cell as text; null is told from an empty text by who shows it. */
export function text(value: Value): string {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
