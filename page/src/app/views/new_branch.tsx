// A new branch from a snapshot: one that goes its own way, or one that stays in step, masked if need be.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { titleOf, type Node } from "../../graph/model";
import { Failure, post } from "../api";
import { Choice, Dialog, Field, NotOffered } from "../parts";
import { useRights } from "../rights";

const STEPS: [string, string][] = [
  ["none", "no, it goes its own way"], ["forward", "it follows, and nobody else writes it"], ["both", "each takes what the other writes"],
];

/** The masks that were typed: columns as `table.column`, all by one key. */
function masksOf(columns: string, key: string): Record<string, string>[] {
  return columns.split(/[\s,]+/).filter(Boolean).map((column) => {
    const dot = column.lastIndexOf(".");
    if (dot < 1) throw new Failure("invalid_name", `${column}: say the table, too, as in customers.email.`, 422);
    return { change: "MaskColumn", table: column.slice(0, dot), name: column.slice(dot + 1), key };
  });
}

export function NewBranch({ node, lane, onClose }: { node: Node; lane: string; onClose: () => void }): JSX.Element {
  const [name, setName] = useState(""), [step, setStep] = useState("none"), [head, setHead] = useState(node.heads[0] ?? "");
  const [columns, setColumns] = useState(""), [key, setKey] = useState("");
  const rights = useRights(), toFollow = rights.someName("maintainer"), toJoin = toFollow || (head ? rights.role(head, "maintainer") : "");
  const steps = STEPS.filter(([way]) => way === "none" || !(way === "both" ? toJoin : toFollow));
  const make = (): Promise<unknown> => {
    if (step === "none") return post("/v1/branches", { name, from: `id:${node.id}` });
    const masks = step === "forward" ? masksOf(columns, key) : [];
    return post("/v1/clones", { name, branch: head, sync: step, transform: masks.length ? masks : null });
  };
  return (
    <Dialog title="A branch from here" action="Create branch" onClose={onClose} onDone={make}>
      <p class="note">Snapshot {node.id.slice(0, 10)} of {lane}: <span dir="auto">{titleOf(node)}</span></p>
      <Field label="Name of the new branch" value={name} onChange={setName} required />
      {head && steps.length > 1 && <Choice label={`Stays in step with ${head}`} value={step} options={steps} onChange={setStep} />}
      {head && <NotOffered of={[["a branch that follows", toFollow], ["one that is kept in step both ways", toJoin]]} />}
      {step !== "none" && node.heads.length > 1 && <Choice label="In step with" value={head} options={node.heads} onChange={setHead} />}
      {step === "forward" && <>
        <Field label="Columns that are masked in it" value={columns} onChange={setColumns} placeholder="none, or customers.email" />
        {columns.trim() && <Field label="Key of the masks" value={key} onChange={setKey} placeholder="env:MASK_KEY" required />}
      </>}
      {step === "forward" && columns.trim() && <p class="note">Nobody reads a masked value back. A key as <code>env:NAME</code> is taken from where the server runs; another text is known until the server ends.</p>}
    </Dialog>
  );
}
