// What guards a sync: its conditions, where its alerts go, and what breaks a view; told, and changed one by one.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { patch, type Failure } from "../api";
import { tellChanged } from "../live";
import { Choice, Dialog, Field } from "../parts";
import { useRights } from "../rights";
import { type ConditionInfo, type SinkInfo, type SyncDetails } from "../types";

const ACTIONS: [string, string][] = [
  ["detach", "detach it"], ["hold", "hold the change until somebody approves"], ["quarantine", "set those rows aside"],
  ["warn", "carry it, and tell"], ["fail", "refuse the source's transaction"],
];
const AS_BAD = "as its action is bad";
const SEVERITIES = ["info", "warning", "error", "critical"];
const AT_LEAST: [string, string][] = SEVERITIES.map((one) => [one, one === "info" ? "all alerts" : `${one} and worse`]);
const BREAKS: Record<string, string> = { detach: "it is detached", move: "it reads the branch that is kept as it was" };
const CONDITIONS = ["changed_share <= 20%", "changed <= 100", "not_empty", "not_null(city)", "unique(email)", "only_additive", "max_lag('1 hour')"];

/** A condition as it is typed; `key` tells it from the others while they come and go. */
interface TypedCondition { key: number; text: string; action: string; severity: string }
/** A sink that is there, or one that is new. */
interface TypedSink { key: number; known: SinkInfo | null; to: string; severity: string }
interface Wrong { part: string; key: number; words: string }

/** What guards a sync, and the way to change it. */
export function SyncGuards({ of }: { of: SyncDetails }): JSX.Element {
  const [isAsked, setAsked] = useState(false), rights = useRights();
  return (
    <>
      <h3>Guarded by</h3>
      {of.conditions.length > 0 ? <ul class="plainlist">{of.conditions.map((one, at) => <li key={at}><code dir="auto">{one.text}</code>, else {one.action}{one.severity && <span class="note"> · its alert is {one.severity}</span>}</li>)}</ul>
        : <p class="note">It has no condition: whatever changes is carried.</p>}
      {of.alerts === null ? <p class="note">Its alerts go where this server does not know.</p>
        : of.alerts.length > 0 ? <><p>Its alerts go to</p><ul class="plainlist">{of.alerts.map((one) => <li key={one.number}><span dir="auto">{one.label}</span> <span class="note">{AT_LEAST[SEVERITIES.indexOf(one.severity)][1]}</span></li>)}</ul></>
        : <p class="note">Its alerts are listed under Alerts, and sent where those of the whole database go.</p>}
      {of.on_break && <p class="note">If it cannot follow a change of a schema, {BREAKS[of.on_break]}.</p>}
      {!rights.sync(of, "alter") && <p><button type="button" onClick={() => setAsked(true)}>Change what guards it…</button></p>}
      {isAsked && <GuardsDialog sync={of} onClose={() => setAsked(false)} />}
    </>
  );
}

const typedCondition = (one: ConditionInfo, key: number): TypedCondition => ({ key, text: one.text, action: one.action, severity: one.severity ?? AS_BAD });
const saidCondition = ({ text, action, severity }: TypedCondition): ConditionInfo => ({ text, action, severity: severity === AS_BAD ? null : severity });
const saidSink = ({ known, to, severity }: TypedSink): object => known ? { number: known.number, label: known.label, severity } : { to, severity };

/** Everything that guards a sync, to be changed together; what the server refuses is told where it was said. */
function GuardsDialog({ sync, onClose }: { sync: SyncDetails; onClose: () => void }): JSX.Element {
  const [before] = useState(sync);
  const [conditions, setConditions] = useState(before.conditions.map(typedCondition));
  const [sinks, setSinks] = useState((before.alerts ?? []).map((known, key): TypedSink => ({ key, known, to: "", severity: known.severity })));
  const [breaks, setBreaks] = useState(before.on_break ?? ""), [next, setNext] = useState(1000);
  const [wrong, setWrong] = useState<Wrong | null>(null);
  const key = (): number => { setNext(next + 1); return next; };
  const problemOf = (part: string, one: number): string | undefined => wrong?.part === part && wrong.key === one ? wrong.words : undefined;
  const change = async (): Promise<void> => {
    setWrong(null);
    const said = conditions.map(saidCondition), told = sinks.map(saidSink);
    const areConditions = JSON.stringify(said) !== JSON.stringify(before.conditions);
    const areSinks = sinks.length !== before.alerts?.length || sinks.some((one, at) => one.known !== before.alerts?.[at] || one.severity !== one.known.severity);
    await patch("/v1/sync", {
      name: before.name,
      ...(areConditions ? { conditions: said } : {}),
      ...(before.alerts && areSinks ? { alerts: told } : {}),
      ...(breaks && breaks !== before.on_break ? { on_break: breaks } : {}),
    });
    tellChanged("sync");
  };
  const isTold = (failure: Failure): boolean => {
    const [part, at] = (failure.details.at ?? []) as [string?, number?];
    const found = at === undefined ? undefined : part === "conditions" ? conditions[at] : sinks[at];
    if (!part || !found || (part === "alerts" && sinks[at ?? 0].known)) return false;
    setWrong({ part, key: found.key, words: failure.message });
    return true;
  };
  const setCondition = (one: TypedCondition, given: Partial<TypedCondition>): void => {
    if (wrong?.key === one.key) setWrong(null);
    setConditions(conditions.map((each) => each === one ? { ...each, ...given } : each));
  };
  const setSink = (one: TypedSink, given: Partial<TypedSink>): void => {
    if (wrong?.key === one.key) setWrong(null);
    setSinks(sinks.map((each) => each === one ? { ...each, ...given } : each));
  };
  return (
    <Dialog title={`What guards ${before.name}`} action="Guard it so" onClose={onClose} onDone={change} isTold={isTold}>
      <datalist id="conditions">{CONDITIONS.map((one) => <option value={one} key={one} />)}</datalist>
      <h4>Conditions</h4>
      {conditions.length === 0 && <p class="note">None: whatever changes is carried.</p>}
      {conditions.map((one, at) => (
        <div class="guard" role="group" aria-label={`Condition ${at + 1}`} key={one.key}>
          <Field label={`Condition ${at + 1}`} value={one.text} onChange={(text) => setCondition(one, { text })} required isWide list="conditions" placeholder={CONDITIONS[0]} problem={problemOf("conditions", one.key)} />
          <Choice label="If it does not hold" value={one.action} options={ACTIONS} onChange={(action) => setCondition(one, { action })} />
          <Choice label="Severity of its alert" value={one.severity} options={[AS_BAD, ...SEVERITIES]} onChange={(severity) => setCondition(one, { severity })} />
          <button type="button" aria-label={`Remove condition ${at + 1}`} onClick={() => setConditions(conditions.filter((each) => each !== one))}>Remove</button>
        </div>))}
      <button type="button" onClick={() => setConditions([...conditions, { key: key(), text: "", action: "detach", severity: AS_BAD }])}>Add a condition</button>
      <h4>Where its alerts go, besides the list of alerts</h4>
      {before.alerts === null ? <p class="note">They go where this server does not know: a newer one can change that.</p> : <>
        {sinks.map((one, at) => (
          <div class="guard" role="group" aria-label={`Place ${at + 1}`} key={one.key}>
            {one.known ? <p dir="auto">{one.known.label}</p>
              : <Field label={`Place ${at + 1}`} value={one.to} onChange={(to) => setSink(one, { to })} required isWide placeholder="log, or webhook:https://…" problem={problemOf("alerts", one.key)} />}
            <Choice label="It is sent" value={one.severity} options={AT_LEAST} onChange={(severity) => setSink(one, { severity })} />
            <button type="button" aria-label={`Remove place ${at + 1}`} onClick={() => setSinks(sinks.filter((each) => each !== one))}>Remove</button>
          </div>))}
        <button type="button" onClick={() => setSinks([...sinks, { key: key(), known: null, to: "", severity: "warning" }])}>Add a place</button>
        <p class="note">What follows the host of an address is shown to nobody. Who runs the server has to trust a webhook, a command or a function.</p></>}
      {before.on_break && <Choice label="If it cannot follow a change of a schema" value={breaks} options={Object.entries(BREAKS)} onChange={setBreaks} />}
    </Dialog>
  );
}
