// A branch's own log: where it was, since when, by whom and why; what a reset left behind is found there.
import { type JSX } from "preact";
import { get } from "../api";
import { useData } from "../live";
import { Heading, Shown, SnapshotLink, Time } from "../parts";
import { to, type Route } from "../route";
import { useDefaultBranch } from "../user";

interface Movement { position: number; snapshot: string; time: string; operation: string; author: string; message: string }

const MOST = 200;

export function LogView({ route }: { route: Route }): JSX.Element {
  const main = useDefaultBranch(), branch = route.given.branch ?? main;
  const found = useData(`movements ${branch}`, (signal) => get<{ movements: Movement[]; next: number | null }>("/v1/branch/movements", { name: branch, limit: MOST }, signal), ["commit", "branch"]);
  return (
    <section class="page">
      <Heading title={`Where ${branch} was`} note="Newest first; what a reset left behind can be read from here"><a class="button" href={to("graph")}>Graph</a></Heading>
      <Shown of={found}>{({ movements, next }) => (
        <><ol class="trail">{movements.map((one) => (
          <li key={one.position}><b dir="auto">{one.message || one.operation.replaceAll("_", " ")}</b> <SnapshotLink id={one.snapshot} />{" "}
            <span class="note">{one.operation.replaceAll("_", " ")} by <span dir="auto">{one.author}</span> · <Time of={one.time} /></span>{" "}
            <a href={to("data", { ref: `id:${one.snapshot}` })}>its tables</a></li>))}</ol>
          {next !== null && <p class="note">The newest {MOST} are shown.</p>}</>
      )}</Shown>
    </section>
  );
}
