// Where a row has gone, and its end in all of these places.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { get, post, type Row, type Value } from "../api";
import { useData } from "../live";
import { Choice, Dialog, Field, Shown, SnapshotLink, Time } from "../parts";
import { goAfter, to } from "../route";
import { text } from "../words";

const WAYS: [string, string][] = [["look", "look first, and change nothing"], ["erase", "erase it for good"]];
const AGGREGATES: [string, string][] = [["keep", "stay as they are, and are listed"], ["recompute", "are computed anew"]];

interface Asked { branch: string; table: string; keys: string[] }

/** Branches, tags, views, clones and models that a row is or was in; asked once somebody wants to know. */
export function Places({ branch, table, keys }: Asked): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}><summary>Where it has gone</summary>
      {isOpen && <PlaceList branch={branch} table={table} keys={keys} />}</details>
  );
}

function PlaceList({ branch, table, keys }: Asked): JSX.Element {
  const found = useData(`places ${branch} ${table} ${keys.join()}`, (signal) => get<{ places: Row[] }>("/v1/whereabouts", { table, key: keys, branch }, signal), ["commit"]);
  return (
    <Shown of={found}>{({ places }) => (
      <ul class="plainlist">{places.map((one, at) => (
        <li key={at}>{text(one.kind)} {one.kind === "model" || one.kind === "tag" ? <b dir="auto">{text(one.name)}</b> : <a href={to("data", { ref: text(one.name), table: text(one.table) })} dir="auto">{text(one.name)}</a>}
          <span class="note"> {one.still ? "still" : "not any more"}, since <Time of={text(one.first_time)} /> {one.first_snapshot && <SnapshotLink id={text(one.first_snapshot)} />}</span></li>))}</ul>
    )}</Shown>
  );
}

/** A row that leaves every version, branch, view and file, once it was said why. */
export function EraseDialog({ branch, table, keyValues, onClose }: { branch: string; table: string; keyValues: Value[]; onClose: () => void }): JSX.Element {
  const [reason, setReason] = useState(""), [way, setWay] = useState("look"), [aggregates, setAggregates] = useState("keep");
  const work = (): Promise<void> => goAfter(
    post("/v1/erase", { table, keys: [keyValues], reason, branch, aggregates, dry_run: way === "look" }), "storage", () => ({}));
  return (
    <Dialog title={`Erase ${keyValues.map(text).join(", ")} of ${table}`} action={way === "look" ? "Look" : "Erase"} isDanger={way === "erase"} onClose={onClose} onDone={work}>
      <p>Deleting takes a row from now on; erasing takes it out of every version, branch, view and file, and nobody brings it back.</p>
      <Choice label="What is done" value={way} options={WAYS} onChange={setWay} />
      <Field label="Reason, which is written down" value={reason} onChange={setReason} required placeholder="asked to be forgotten, case 17" />
      <Choice label="Sums of the past that it is part of" value={aggregates} options={AGGREGATES} onChange={setAggregates} />
      <p class="note">The job, under Storage, tells what it found and did.</p>
    </Dialog>
  );
}
