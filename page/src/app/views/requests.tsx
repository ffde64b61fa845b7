// Merge requests: what somebody would like to have merged, and what others say to it.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { get, post } from "../api";
import { useData } from "../live";
import { Act, Choice, Dialog, Field, Heading, NotOffered, Nothing, Shown, State, Time } from "../parts";
import { useRights } from "../rights";
import { goAfter, to, type Route } from "../route";
import { type CheckInfo, type RequestDetails, type RequestInfo, type Snapshot } from "../types";
import { useDefaultBranch, useUser } from "../user";
import { MergeForm } from "./merge";
import { MergeRule } from "./merge_rule";

const DONE: Record<string, string> = { comment: "said", approve: "approved", close: "closed it", reopen: "reopened it", merge: "merged it" };

export function RequestsView({ route }: { route: Route }): JSX.Element {
  const [isNew, setNew] = useState(false), [state, setState] = useState("all"), main = useDefaultBranch(), toAsk = useRights().roleAnywhere("writer");
  const chosen = Number(route.given.number ?? 0);
  const found = useData(`requests ${state}`, (signal) => get<{ merge_requests: RequestInfo[]; next: number | null }>("/v1/merge-requests", { state: state === "all" ? undefined : state }, signal), ["merge_request"]);
  if (chosen) return <RequestView key={chosen} number={chosen} />;
  return (
    <section class="page">
      <Heading title="Merge requests"><Choice label="Show" value={state} options={["all", "open", "merged", "closed"]} onChange={setState} />{!toAsk && <button type="button" class="main" onClick={() => setNew(true)}>New request…</button>}</Heading>
      <NotOffered of={[["New request", toAsk]]} />
      <Shown of={found}>{({ merge_requests: all, next }) => all.length
        ? <><ul class="cards">{all.map((one) => (
          <li key={one.number}><a href={to("requests", { number: one.number })}><b dir="auto">#{one.number} {one.title || `${one.source} into ${one.target}`}</b></a> <State of={one.state} />
            <p class="note">{one.source} → {one.target} · by {one.author} · <Time of={one.time} /></p></li>))}</ul>
          {next !== null && <p class="note">The newest {all.length} are shown.</p>}</>
        : <Nothing><p>{state === "all" ? "Nobody asked for a merge yet." : `None is ${state}.`}</p></Nothing>}
      </Shown>
      <MergeRule branch={main} />
      {isNew && <NewRequest onClose={() => setNew(false)} />}
    </section>
  );
}

function NewRequest({ onClose }: { onClose: () => void }): JSX.Element {
  const [source, setSource] = useState(""), main = useDefaultBranch(), [into, setInto] = useState(main), [title, setTitle] = useState(""), [description, setDescription] = useState("");
  return (
    <Dialog title="Ask for a merge" action="Ask" onClose={onClose} onDone={() =>
      goAfter(post<RequestInfo>("/v1/merge-requests", { source, into, title, description }), "requests", (made) => ({ number: made.number }))}>
      <Field label="From branch" value={source} onChange={setSource} list="refs" required />
      <Field label="Into branch" value={into} onChange={setInto} list="refs" required />
      <Field label="Title" value={title} onChange={setTitle} />
      <Field label="Why" value={description} onChange={setDescription} />
    </Dialog>
  );
}

function RequestView({ number }: { number: number }): JSX.Element {
  const path = `/v1/merge-requests/${number}`;
  const found = useData(path, (signal) => get<RequestDetails>(path, {}, signal), ["merge_request", "commit"]);
  const checks = useData(`${path}/checks`, (signal) => get<{ checks: CheckInfo[] }>(`${path}/checks`, {}, signal), ["merge_request", "commit"]);
  const [said, setSaid] = useState(""), rights = useRights(), user = useUser();
  const toApprove = (of: RequestInfo): string => rights.role(of.target, "writer");
  const toEnd = (of: RequestInfo): string => of.author === user ? "" : rights.role(of.target, "maintainer");
  const note = (action: string) => async (): Promise<void> => { await post(`${path}/notes`, { action, text: said }); setSaid(""); };
  return (
    <section class="page">
      <Shown of={found}>{(request) => (
        <>
          <Heading title={`#${request.number} ${request.title || `${request.source} into ${request.target}`}`}>
            <a class="button" href={to("requests")}>All requests</a>
            <a class="button" href={to("compare", { before: request.target, after: request.source })}>Compare {request.source} with {request.target}</a>
          </Heading>
          <p><State of={request.state} /> {request.source} → {request.target} · asked by {request.author} · <Time of={request.time} /></p>
          {request.description && <p dir="auto">{request.description}</p>}
          {request.state === "open" && request.problems.length > 0 && <ul class="bad">{request.problems.map((one) => <li key={one}>{one}</li>)}</ul>}
          {(checks.data?.checks ?? []).map((check) => <p key={check.text} class={check.holds ? "fine" : "bad"}>{check.holds ? "✓" : "✗"} <code>{check.text}</code> {check.problem}</p>)}
          <MergeRule branch={request.target} onChange={found.reload} />
          <h3>Discussion</h3>
          {request.notes.length === 0 && <p class="note">Nobody said anything yet.</p>}
          <ol class="trail">{request.notes.map((one, at) => (
            <li key={at}><b>{one.author}</b> {DONE[one.kind] ?? one.kind} · <Time of={one.time} /><p dir="auto">{one.text}</p></li>))}</ol>
          {request.state === "open" ? (
            <>
              <div class="bar"><Field label="Say something" value={said} onChange={setSaid} />
                <Act words="Comment" act={note("comment")} />{!toApprove(request) && <Act words="Approve" act={note("approve")} />}{!toEnd(request) && <Act words="Close the request" act={note("close")} />}</div>
              <NotOffered of={[["Approve", toApprove(request)], ["Close the request", toEnd(request)]]} />
              <h3>Merge</h3>
              <MergeForm source={request.source} into={request.target} words={`Merge into ${request.target}`} refusal={rights.on(request.target, "merge_request")}
                preview={(how) => post("/v1/merge/preview", { source: request.source, into: request.target, ...how })}
                merge={(how) => goAfter(post<Snapshot>(`${path}/merge`, how), "graph", (made) => ({ at: made.id }))} />
            </>
          ) : <div class="row">{request.state === "closed" && (toEnd(request) ? <NotOffered of={[["Reopen", toEnd(request)]]} /> : <Act words="Reopen" act={note("reopen")} />)}
            {request.snapshot && <a class="button" href={to("graph", { at: request.snapshot })}>See the merge</a>}</div>}
        </>
      )}</Shown>
    </section>
  );
}
