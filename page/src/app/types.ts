// What the server answers, as far as the page reads it.
import { type Column, type Row } from "./api";

export interface About { version: string; database: string; name: string; default_branch: string | null; read_only: string | null; user: string; position: string }
export type Role = "reader" | "writer" | "maintainer" | "owner";
export interface UserInfo { name: string; grants: { role: Role; branches: string }[] }
export interface Me extends UserInfo { everywhere: Role | null }
export type BranchDeed = "write" | "merge" | "merge_request" | "change_schema" | "reset" | "rename" | "drop" | "retire" | "set_rule";
export interface BranchInfo { name: string; head: string; time: string; author: string; message: string; tables: string[]; role: Role | null; may: BranchDeed[] }
export interface Snapshot {
  id: string; time: string; author: string; message: string; kind: string; operation: string;
  parents: string[]; sources: Record<string, string>; metrics: Row; refresh: Row;
}
export interface TableInfo { name: string; snapshot: string; columns: Column[]; key: string[]; row_count: number; version: string }
export interface Rows { columns: Column[]; rows: Row[] }
export interface ForwardLineage { objects: Record<string, Row[]>; whole: string[]; more: string[] }
export interface Lineage { snapshot: string; tables: Record<string, Row[]>; snapshots: Record<string, string>; branches: Record<string, string>; whole: string[] }
export interface Page extends Rows { snapshot: string; next: string | null }
export interface SqlAnswer extends Rows { snapshot: string | null; changed: number; engine: string; more: boolean }
export interface DiffInfo {
  tables: Record<string, { inserted: number; updated: number; deleted: number; schema_state: string }>;
  schema_changes: Row[];
  notes: string[];
}
export interface Preview {
  is_clean: boolean; fast_forward: boolean; changes: Record<string, Record<string, number>>;
  schema_changes: Row[]; conflicts: Record<string, Row[]>; schema_conflicts: Record<string, string>; refusal: string;
}
export interface SyncInfo {
  name: string; kind: string; makes: string; sources: string[]; target: string; direction: string; when: string;
  state: string; reason: string; lag: number | null; lag_seconds: number | null;
  conditions: ConditionInfo[]; may: SyncDeed[];
}
export type SyncDeed = "alter" | "approve" | "resume" | "reattach" | "detach" | "refresh";
export interface ConditionInfo { text: string; action: string; severity: string | null }
export interface SinkInfo { number: number; label: string; severity: string }
export interface SyncDetails extends SyncInfo {
  explanation: string; definition: string; trail: Row[]; runs: Row[]; alerts: SinkInfo[] | null; on_break: string | null;
}
export interface AlertInfo {
  number: number; time: string; sync: string; event: string; severity: string; state: string;
  message: string; details: Row; deliveries: Row[]; may_settle: boolean;
}
export interface WatchInfo { name: string; event: string; severity: string; time: string }
export interface RetentionInfo {
  days: number | null; snapshots: number | null; thin: string | null; thin_days: number | null; dropped_days: number | null;
  drop_idle: boolean | number; branches: Record<string, RetentionInfo>; tags: Record<string, string>; grace_seconds: number;
}
export interface RequestInfo {
  number: number; title: string; description: string; author: string; time: string;
  source: string; target: string; state: string; snapshot: string | null;
}
export interface Note { kind: string; author: string; time: string; text: string }
export interface RequestDetails extends RequestInfo { notes: Note[]; approvals: Note[]; problems: string[] }
export interface CheckInfo { text: string; holds: boolean; problem: string | null; action: string }
export interface StatusLine { kind: string; name: string; message: string; time?: string | null }
export interface StatusInfo {
  ok: boolean; due: StatusLine[]; running: StatusLine[]; failed: StatusLine[]; next: StatusLine[];
  behind: { name: string; state: string; when: string; snapshots: number | null; seconds: number | null; why: string }[];
  branches: number; snapshots: number; packs: number; journal_bytes: number;
}
export interface StorageInfo {
  bytes: number; catalog_bytes: number; pack_bytes: number; journal_bytes: number; projection_bytes: number;
  chunks: number; packs: number; snapshots: number; sharing: number;
  tables: Record<string, { chunks: number; bytes: number }>;
  branches: Record<string, { chunks: number; bytes: number }>;
}
export interface JobInfo {
  id: string; kind: string; state: string; began: string; ended: string | null; progress: string;
  done: number | null; total: number | null; result: unknown; error: { code: string; message: string } | null;
}
export interface Explanation { legal: string[]; illegal: Record<string, string>; scans: string[]; failures: string[] }
