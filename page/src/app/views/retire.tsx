// A version of a schema that no application needs any more is ended here.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { post } from "../api";
import { Choice, Dialog, NotOffered } from "../parts";
import { useRights } from "../rights";

const POLICIES: [string, string][] = [["reject", "stop, and tell which"], ["truncate", "let them go"]];

/** A button for each version that can be ended, and what that means. */
export function Retire({ versions }: { versions: string[] }): JSX.Element {
  const [asked, setAsked] = useState<string | null>(null), [policy, setPolicy] = useState("reject"), rights = useRights();
  return (
    <div class="row">
      {versions.filter((name) => !rights.on(name, "retire")).map((name) => <button type="button" key={name} onClick={() => setAsked(name)}>Retire {name}…</button>)}
      {asked !== null && <Dialog title={`Retire ${asked}`} action="Retire" isDanger onClose={() => setAsked(null)} onDone={() => post("/v1/schema/retire", { branch: asked, policy })}>
        <p>Applications that read <b dir="auto">{asked}</b> find it no more. The versions beside it stay in step with each other.</p>
        <Choice label="If it has values that no other version has" value={policy} options={POLICIES} onChange={setPolicy} />
      </Dialog>}
      <NotOffered of={versions.map((name) => [`Retire ${name}`, rights.on(name, "retire")])} />
    </div>
  );
}
