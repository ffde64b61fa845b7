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

const REASONS: Record<string, string> = {
  FUNCTION: "a function is run over all rows", ASKED_FOR: "somebody asked for all of it", DEFINITION_CHANGED: "its definition changed",
  DELTA_TOO_LARGE: "so much changed that following it costs more", SCHEMA_CHANGED: "the schema changed", NOT_DETERMINISTIC: "it asks for chance or for the time",
  TIME_DEPENDENT: "it asks for the time", SCALAR_SUBQUERY_CHANGED: "a value that all rows are held against changed",
  STATE_DOES_NOT_MATCH: "what was kept of it did not fit", WINDOW_WITHOUT_PARTITION_BY: "a window goes over all rows",
};

/** Why something was done so, as people say it; the words of the query's plan are plain enough. */
export const reasonWords = (reason: string): string => REASONS[reason] ?? reason.replaceAll("_", " ").toLowerCase();

/** How far something is behind what it follows. */
export const lagWords = ({ lag, lag_seconds }: { lag: number | null; lag_seconds: number | null }): string =>
  lag ? `${plural(lag, "snapshot")} (${duration(lag_seconds)}) behind` : lag === 0 ? "up to date" : "";

/** A value of a cell as text; null is told from an empty text by who shows it. */
export function text(value: Value): string {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** Whether two values are the same; an empty text is not null. */
export const isAlike = (one: Value | undefined, other: Value | undefined): boolean =>
  text(one ?? null) === text(other ?? null) && ((one ?? null) === null) === ((other ?? null) === null);
