// Alerts: what stopped or looked wrong, and who looks after it.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { get, post, type Value } from "../api";
import { tellChanged, useData } from "../live";
import { Act, Choice, Field, Heading, NotOffered, Nothing, Shown, State, Time } from "../parts";
import { to } from "../route";
import { type AlertInfo, type SyncInfo } from "../types";
import { plural } from "../words";
import { Watches } from "./watches";

export function AlertsView(): JSX.Element {
  const [state, setState] = useState("open");
  const found = useData(`alerts ${state}`, (signal) => get<{ alerts: AlertInfo[] }>("/v1/alerts", { state: state === "all" ? undefined : state, limit: 200 }, signal), ["alert"]);
  const syncs = useData("syncs", (signal) => get<{ syncs: SyncInfo[] }>("/v1/syncs", {}, signal), ["sync"]);
  const names = new Set((syncs.data?.syncs ?? []).map(({ name }) => name));
  return (
    <section class="page">
      <Heading title="Alerts">
        <Choice label="Show" value={state} options={["open", "acknowledged", "resolved", "all"]} onChange={setState} />
      </Heading>
      <Shown of={found}>{({ alerts }) => alerts.length ? (
        <ul class="cards">{alerts.map((one) => <Alert key={one.number} of={one} isSync={names.has(one.sync)} />)}</ul>
      ) : <Nothing><p>{state === "open" ? "Nothing needs you." : "None."}</p></Nothing>}</Shown>
      <Watches />
    </section>
  );
}

interface Look { by?: string; note?: string; time?: number }

/** Who looked at an alert, when, and what they found. */
function Looked({ of, words }: { of: Value | undefined; words: string }): JSX.Element {
  const look = of as Look | undefined;
  if (!look?.by) return <></>;
  return <p class="note">{words} by <span dir="auto">{look.by}</span>{look.time && <> · <Time of={new Date(look.time / 1000).toISOString()} /></>}{look.note && <>: <span dir="auto">{look.note}</span></>}</p>;
}

const TO_SETTLE = "that takes the role maintainer on what it is about";

function Alert({ of, isSync }: { of: AlertInfo; isSync: boolean }): JSX.Element {
  const [note, setNote] = useState("");
  const act = (action: string) => () => post(`/v1/alerts/${of.number}`, { action, note });
  const done = (): void => tellChanged("alert");
  return (
    <li><State of={of.severity} /> <b>{isSync ? <a href={to("syncs", { name: of.sync })} dir="auto">{of.sync}</a> : <span dir="auto">{of.sync}</span>}{of.sync && ": "}{of.event.replaceAll("_", " ")}</b>
      <p dir="auto">{of.message}</p>
      <p class="note">{of.state} · <Time of={of.time} />{of.deliveries.length ? ` · sent to ${plural(of.deliveries.length, "sink")}` : ""}</p>
      <Looked of={of.details.acknowledged} words="Acknowledged" /><Looked of={of.details.resolved} words="Resolved" />
      {of.state !== "resolved" && of.may_settle && <div class="row">{isSync && <a class="button" href={to("syncs", { name: of.sync })} aria-label={`Look at it: ${of.sync}`}>Look at it</a>}<Field label="Note" value={note} onChange={setNote} placeholder="what you found" />
        {of.state === "open" && <Act words="Acknowledge" act={act("acknowledge")} onDone={done} />}
        <Act words="Resolve" act={act("resolve")} onDone={done} /></div>}
      {of.state !== "resolved" && !of.may_settle && <div class="row">{isSync && <a class="button" href={to("syncs", { name: of.sync })} aria-label={`Look at it: ${of.sync}`}>Look at it</a>}<NotOffered of={[["Acknowledge", TO_SETTLE], ["Resolve", TO_SETTLE]]} /></div>}</li>
  );
}
