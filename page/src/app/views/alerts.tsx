// Alerts: what stopped or looked wrong, and who looks after it.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { get, post } from "../api";
import { tellChanged, useData } from "../live";
import { Act, Choice, Field, Heading, Nothing, Shown, State, Time } from "../parts";
import { to } from "../route";
import { type AlertInfo } from "../types";
import { plural } from "../words";

export function AlertsView(): JSX.Element {
  const [state, setState] = useState("open");
  const found = useData(`alerts ${state}`, (signal) => get<{ alerts: AlertInfo[] }>("/v1/alerts", { state: state === "all" ? undefined : state, limit: 200 }, signal), ["alert"]);
  return (
    <section class="page">
      <Heading title="Alerts">
        <Choice label="Show" value={state} options={["open", "acknowledged", "resolved", "all"]} onChange={setState} />
      </Heading>
      <Shown of={found}>{({ alerts }) => alerts.length ? (
        <ul class="cards">{alerts.map((one) => <Alert key={one.number} of={one} />)}</ul>
      ) : <Nothing><p>{state === "open" ? "Nothing needs you." : "None."}</p></Nothing>}</Shown>
    </section>
  );
}

function Alert({ of }: { of: AlertInfo }): JSX.Element {
  const [note, setNote] = useState("");
  const act = (action: string) => () => post(`/v1/alerts/${of.number}`, { action, note });
  const done = (): void => tellChanged("alert");
  return (
    <li><State of={of.severity} /> <b><a href={to("syncs", { name: of.sync })} dir="auto">{of.sync}</a>: {of.event.replaceAll("_", " ")}</b>
      <p dir="auto">{of.message}</p>
      <p class="note">{of.state} · <Time of={of.time} />{of.deliveries.length ? ` · sent to ${plural(of.deliveries.length, "sink")}` : ""}</p>
      {of.state !== "resolved" && <div class="row"><Field label="Note" value={note} onChange={setNote} placeholder="what you found" />
        {of.state === "open" && <Act words="Acknowledge" act={act("acknowledge")} onDone={done} />}
        <Act words="Resolve" act={act("resolve")} onDone={done} /></div>}</li>
  );
}
