// Alerts: what stopped or looked wrong, and who looks after it.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { get, post } from "../api";
import { tellChanged, useData } from "../live";
import { Act, Choice, Field, Heading, Nothing, Shown, State, Time } from "../parts";
import { to } from "../route";
import { type AlertInfo } from "../types";

export function AlertsView(): JSX.Element {
  const [state, setState] = useState("open"), [note, setNote] = useState("");
  const found = useData(`alerts ${state}`, (signal) => get<{ alerts: AlertInfo[] }>("/v1/alerts", { state: state === "all" ? undefined : state, limit: 200 }, signal), ["alert"]);
  const done = (): void => tellChanged("alert");
  return (
    <section class="page">
      <Heading title="Alerts">
        <Choice label="Show" value={state} options={["open", "acknowledged", "resolved", "all"]} onChange={setState} />
        <Field label="Note" value={note} onChange={setNote} placeholder="what you found" />
      </Heading>
      <Shown of={found}>{({ alerts }) => alerts.length ? (
        <ul class="cards">{alerts.map((one) => (
          <li key={one.number}><State of={one.severity} /> <State of={one.state} /> <b dir="auto">{one.message}</b>
            <p class="note">{one.event} · <a href={to("syncs", { name: one.sync })} dir="auto">{one.sync}</a> · <Time of={one.time} />{one.deliveries.length ? ` · told ${one.deliveries.length}` : ""}</p>
            <div class="row">
              {one.state === "open" && <Act words="Acknowledge" act={() => post(`/v1/alerts/${one.number}`, { action: "acknowledge", note })} onDone={done} />}
              {one.state !== "resolved" && <Act words="Resolve" act={() => post(`/v1/alerts/${one.number}`, { action: "resolve", note })} onDone={done} />}
            </div></li>))}</ul>
      ) : <Nothing><p>{state === "open" ? "Nothing needs you." : "None."}</p></Nothing>}</Shown>
    </section>
  );
}
