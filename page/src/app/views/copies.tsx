// Files beside the database: a backup of all of it, and tables for other programs.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { post } from "../api";
import { Choice, Dialog, Field } from "../parts";
import { useDefaultBranch } from "../user";

const FORMS = ["parquet", "csv", "arrow"];

/** A backup, below the place that whoever runs the server chose. */
export function BackupDialog({ onClose }: { onClose: () => void }): JSX.Element {
  const [name, setName] = useState(""), [isVerified, setVerified] = useState(false);
  return (
    <Dialog title="Back up the database" action="Back up" onClose={onClose} onDone={() => post("/v1/backup", { name, verify: isVerified })}>
      <p>Only what changed since the last backup of this name is written. Work goes on meanwhile.</p>
      <Field label="Name of the backup" value={name} onChange={setName} required placeholder="nightly" />
      <label class="tick"><input type="checkbox" checked={isVerified} onChange={(event) => setVerified(event.currentTarget.checked)} /> Read it again afterwards, to be sure</label>
      <p class="note">It goes to the place that whoever runs the server chose with <code>--backup-place</code>; the job tells how far it is.</p>
    </Dialog>
  );
}

/** Tables at a ref as files, below the folder that whoever runs the server chose. */
export function ExportDialog({ onClose }: { onClose: () => void }): JSX.Element {
  const main = useDefaultBranch(), [ref, setRef] = useState(main), [name, setName] = useState(""), [tables, setTables] = useState(""), [form, setForm] = useState(FORMS[0]);
  const work = (): Promise<unknown> => {
    const wanted = tables.split(/[\s,]+/).filter(Boolean);
    return post("/v1/export", { name, ref, tables: wanted.length ? wanted : null, format: form });
  };
  return (
    <Dialog title="Write tables as files" action="Export" onClose={onClose} onDone={work}>
      <Field label="Name of the folder" value={name} onChange={setName} required placeholder="orders-2026" />
      <Field label="At branch, tag or snapshot" value={ref} onChange={setRef} list="refs" required />
      <Field label="Tables" value={tables} onChange={setTables} placeholder="all" />
      <Choice label="As" value={form} options={FORMS} onChange={setForm} />
      <p class="note">It goes to the folder that whoever runs the server chose with <code>--export-folder</code>; the job tells how far it is.</p>
    </Dialog>
  );
}
