// Storage and upkeep: where the bytes are, what is behind, and what would cost less.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { get, post } from "../api";
import { useData } from "../live";
import { Act, Dialog, Heading, NotOffered, Nothing, Shown, State, Time, Wide } from "../parts";
import { useRights } from "../rights";
import { to } from "../route";
import { type JobInfo, type StatusInfo, type StatusLine, type StorageInfo } from "../types";
import { bytes, duration, number, plural } from "../words";
import { BackupDialog, ExportDialog } from "./copies";
import { EVERYTHING, RetentionRules, Rules, ruleWords, useRetention } from "./retention";

const UPKEEP = ["Advice", "Compact", "What could be freed?", "Free it", "Check", "Do what is due"];

export function StorageView(): JSX.Element {
  const storage = useData("storage", (signal) => get<StorageInfo>("/v1/storage", {}, signal), ["commit", "branch"]);
  const status = useData("status", (signal) => get<StatusInfo>("/v1/status", {}, signal), ["commit", "sync", "alert"]);
  const [asked, setAsked] = useState<"free" | "backup" | "export" | "">("");
  const close = (): void => setAsked(""), rights = useRights();
  const toMaintain = rights.everywhere("maintainer"), toCopy = rights.everywhere("owner");
  return (
    <section class="page">
      <Heading title="Storage and upkeep">
        {!toMaintain && <>
          <a class="button" href={to("advice")}>Advice</a>
          <Act words="Compact" act={() => post("/v1/compact")} />
          <Act words="What could be freed?" act={() => post("/v1/collect", { dry_run: true })} />
          <button type="button" onClick={() => setAsked("free")}>Free it…</button>
          <Act words="Check" act={() => post("/v1/check", {})} />
          <Act words="Do what is due" act={() => post("/v1/upkeep")} /></>}
        {!toCopy && <>
          <button type="button" onClick={() => setAsked("backup")}>Back up…</button>
          <button type="button" onClick={() => setAsked("export")}>Export…</button></>}
      </Heading>
      <NotOffered of={[...UPKEEP.map((words): [string, string] => [words, toMaintain]), ["Back up", toCopy], ["Export", toCopy]]} />
      {asked === "free" && <Free onClose={close} />}
      {asked === "backup" && <BackupDialog onClose={close} />}
      {asked === "export" && <ExportDialog onClose={close} />}
      <Jobs />
      <Shown of={status}>{(told) => (
        <>
          <p class={told.ok ? "fine" : "bad"} role="status">{told.ok ? "Everything is as it should be." : "Something is behind or failed."}</p>
          {told.behind.length > 0 && <><h3>Behind</h3><Wide label="Behind"><table class="summary stack"><thead><tr><th scope="col">Sync</th><th scope="col">State</th><th scope="col">Behind by</th><th scope="col">Why</th></tr></thead><tbody>{told.behind.map((one) => (
            <tr key={one.name}><th scope="row"><a href={to("syncs", { name: one.name })} dir="auto">{one.name}</a></th><td data-of="state"><State of={one.state} /></td><td data-of="behind by">{one.snapshots === null ? "" : plural(one.snapshots, "snapshot")}{one.seconds === null ? "" : ` (${duration(one.seconds)})`}</td><td data-of="why" dir="auto">{one.why}</td></tr>))}</tbody></table></Wide></>}
          <Lines title="Failed" of={told.failed} /><Lines title="Running" of={told.running} /><Lines title="Due now" of={told.due.map(({ time: _, ...one }) => one)} />
          <Lines title="Planned" of={told.next.filter((one) => !told.due.some((due) => due.kind === one.kind && due.name === one.name))} />
        </>
      )}</Shown>
      <Shown of={storage}>{(told) => (
        <>
          <h3>Where the {bytes(told.bytes)} are</h3>
          <dl class="facts"><dt>Packs</dt><dd>{bytes(told.pack_bytes)} in {plural(told.packs, "pack")}</dd><dt>Catalog</dt><dd>{bytes(told.catalog_bytes)}</dd><dt>Journal</dt><dd>{bytes(told.journal_bytes)}</dd><dt>For Spark</dt><dd>{bytes(told.projection_bytes)}</dd><dt>Chunks</dt><dd>{number(told.chunks)}, each shared {told.sharing.toFixed(1)} times</dd></dl>
          <Weights title="Tables" of={told.tables} /><Weights title="Branches" of={told.branches} />
          <RetentionRules />
        </>
      )}</Shown>
    </section>
  );
}

/** What retention does not keep is let go, once somebody has read what that is. */
function Free({ onClose }: { onClose: () => void }): JSX.Element {
  const kept = useRetention();
  return (
    <Dialog title="Free what retention does not keep" action="Free it" isDanger onClose={onClose} onDone={() => post("/v1/collect", { dry_run: false })}>
      <Shown of={kept}>{(policy) => [policy, ...Object.values(policy.branches)].some((rule) => ruleWords(rule) !== EVERYTHING) || Object.keys(policy.tags).length > 0
        ? <><p>Snapshots that these rules do not keep cannot be read any more; their place in the graph stays:</p><Rules of={policy} /></>
        : <p>No retention is set: every snapshot stays. Only what nothing refers to any more is let go.</p>}</Shown>
      <p class="note">“What could be freed?” tells how much that is, and writes nothing.</p>
    </Dialog>
  );
}

/** What the work of upkeep is, in words. */
const WORK: Record<string, string> = {
  propagate: "Carry what is behind", alerts: "Send alerts", drain: "Pack what was written", fold: "Shorten the way to what is read",
  migrate: "Store what is read through schema changes", layout: "Lay tables out anew", tune: "Tune", collect: "Forget what is not kept",
  project: "Write files for Spark", sweep: "Clear files away", compact: "Write packs anew", check: "Look for damage",
};

/** What a line is about; the name of a job is that of the handbook. */
function Subject({ of: { kind, name } }: { of: StatusLine }): JSX.Element {
  return kind === "job" && name in WORK ? <><b>{WORK[name]}</b> <span class="note">({name})</span></> : <b dir="auto">{kind} {name}</b>;
}

function Lines({ title, of }: { title: string; of: StatusLine[] }): JSX.Element {
  if (!of.length) return <></>;
  return <><h3>{title}</h3><ul class="plainlist">{of.map((one, at) => <li key={at}><Subject of={one} />: {one.message}{one.time && <span class="note"> · <Time of={one.time} /></span>}</li>)}</ul></>;
}

function Weights({ title, of }: { title: string; of: Record<string, { bytes: number }> }): JSX.Element {
  const sorted = Object.entries(of).sort((a, b) => b[1].bytes - a[1].bytes).slice(0, 25), most = Math.max(1, sorted[0]?.[1].bytes ?? 1);
  return (
    <table class="bars"><caption>{title}</caption><tbody>{sorted.map(([name, weight]) => (
      <tr key={name}><th scope="row" dir="auto">{name}</th><td><svg class="track" preserveAspectRatio="none" viewBox="0 0 100 10" aria-hidden="true"><rect width={(100 * weight.bytes) / most} height="10" /></svg></td><td class="number">{bytes(weight.bytes)}</td></tr>))}</tbody></table>
  );
}

/** Long work on the server, as it goes on. */
export function Jobs(): JSX.Element {
  const found = useData("jobs", (signal) => get<{ jobs: JobInfo[] }>("/v1/jobs", {}, signal), ["job"]);
  const jobs = found.data?.jobs ?? [];
  if (!jobs.length) return <></>;
  return (
    <><h3>Jobs</h3><ul class="cards">{jobs.slice(0, 8).map((job) => <JobCard key={job.id} job={job} />)}</ul></>
  );
}

function JobCard({ job }: { job: JobInfo }): JSX.Element {
  const [isAsked, setAsked] = useState(false), isGoing = ["waiting", "running", "cancelling"].includes(job.state);
  return (
    <li><b>{job.kind}</b> <State of={job.state} /> {isGoing && job.progress} {job.total !== null && <progress max={job.total} value={job.done ?? 0} aria-label={`${job.kind} progress`} />}
      {job.error && <p class="bad">{job.error.message}</p>}
      {job.state === "done" && job.result !== null && job.result !== undefined && <details><summary>What it did</summary><Facts of={job.result} /></details>}
      {isGoing && (isAsked || job.state === "cancelling" ? <p class="note" role="status">Asked to end; it does so where it next can.</p>
        : <Act words="Cancel" act={() => post(`/v1/jobs/${job.id}/cancel`)} onDone={() => setAsked(true)} />)}</li>
  );
}

/** What a job tells, a line for each thing; sizes with their units. */
function Facts({ of }: { of: unknown }): JSX.Element {
  if (typeof of !== "object" || of === null || Array.isArray(of)) return <pre>{JSON.stringify(of, null, 1)}</pre>;
  return <dl class="facts">{Object.entries(of).map(([name, value]) => (
    <><dt>{name.replace(/_bytes$/, "").replaceAll("_", " ")}</dt><dd dir="auto">{fact(name, value)}</dd></>))}</dl>;
}

function fact(name: string, value: unknown): string {
  if (typeof value === "number") return name.endsWith("_bytes") ? bytes(value) : number(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value) && value.length === 0) return "none";
  if (typeof value !== "object" || value === null) return String(value ?? "none");
  const parts = Object.entries(value);
  return parts.every(([, part]) => part === null || typeof part !== "object")
    ? parts.map(([part, said]) => Array.isArray(value) ? String(said) : `${part}: ${said}`).join(", ") : JSON.stringify(value);
}

interface Advice { number: number; action: string; reason: string; state: string; outcome: string; noticed_by: string; predicted_seconds: number; measured_seconds: number | null; price_bytes: number }

/** What an advice is thought to bring, what a trial of it did, and what it costs. */
function evidence(of: Advice): string {
  const measured = of.measured_seconds === null ? "not tried" : `${duration(of.measured_seconds)} less when it was tried`;
  const noticed = of.noticed_by && of.noticed_by !== "nobody" ? `noticed by ${of.noticed_by}` : "";
  return [`${duration(of.predicted_seconds)} less predicted`, measured, `costs ${bytes(of.price_bytes)}`, noticed, of.outcome].filter(Boolean).join(" · ");
}

/** What would cost less, with its evidence; done and undone from here. */
export function AdviceView(): JSX.Element {
  const found = useData("advice", (signal) => get<{ mode: string; advice: Advice[] }>("/v1/advice", {}, signal), ["job"]);
  const toTune = useRights().everywhere("maintainer");
  return (
    <section class="page"><Heading title="Advice" note="What would make the work that is done here cost less">{!toTune && <Act words="Look for advice" act={() => post("/v1/tune", {})} />}</Heading>
      <NotOffered of={[["Look for advice", toTune]]} />
      <Jobs />
      <Shown of={found}>{({ mode, advice }) => advice.length ? <ul class="cards">{advice.map((one) => (
        <li key={one.number}><b>{one.action}</b> <State of={one.state} /><p>{one.reason}</p>
          <p class="note">{evidence(one)}</p>
          {one.state === "advised" && <Act words="Do it" act={() => post(`/v1/advice/${one.number}`, { action: "apply" })} onDone={found.reload} />}
          {one.state === "applied" && <Act words="Undo" act={() => post(`/v1/advice/${one.number}`, { action: "undo" })} onDone={found.reload} />}</li>))}</ul>
        : <Nothing><p>{mode === "off" ? "Nothing is observed: db.tuning is off." : "Nothing to advise yet: not enough was observed, or all is well."}</p></Nothing>}</Shown></section>
  );
}
