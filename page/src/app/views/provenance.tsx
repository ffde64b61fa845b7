// Where a snapshot comes from.
import { type JSX } from "preact";
import { get } from "../api";
import { useData } from "../live";
import { Shown, SnapshotLink, Time } from "../parts";
import { to, type Route } from "../route";
import { useDefaultBranch } from "../user";
import { refName } from "../words";

/** Where a snapshot comes from, as a tree. */
export function ProvenanceView({ route }: { route: Route }): JSX.Element {
  const main = useDefaultBranch(), ref = route.given.ref ?? main;
  const found = useData(`provenance ${ref}`, (signal) => get<{ tree: Origin }>("/v1/provenance", { ref }, signal), ["commit"]);
  return (
    <section class="page">
      <h2 id="view-title" tabIndex={-1}>Where {refName(ref)} comes from</h2>
      <Shown of={found}>{({ tree }) => (
        <><ul class="tree"><Branching of={tree} /></ul>
          <a class="button" href={to("graph", { at: tree.snapshot })}>Show in the graph</a></>
      )}</Shown>
    </section>
  );
}

interface Origin {
  snapshot: string; kind: string; operation: string; author: string; time: string; message: string;
  role?: string; sync?: string; query?: string; strategy?: string; branches?: string[]; children?: Origin[];
}

function Branching({ of }: { of: Origin }): JSX.Element {
  return (
    <li>
      <b dir="auto">{of.message || of.operation.replaceAll("_", " ")}</b>{" "}
      <SnapshotLink id={of.snapshot} />{" "}
      <span class="note">{[of.role, of.kind.replaceAll("_", " "), of.author, of.sync, of.strategy].filter(Boolean).join(" · ")} · <Time of={of.time} /></span>
      {of.query && <pre dir="auto">{of.query}</pre>}
      {of.children && of.children.length > 0 && <ul>{of.children.map((child) => <Branching of={child} key={child.snapshot} />)}</ul>}
    </li>
  );
}
