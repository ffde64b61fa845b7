// Retention: which snapshots are kept, for how long, and where by other rules.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { get, put } from "../api";
import { useData, type Loaded } from "../live";
import { Choice, Dialog, Field, NotOffered, Shown } from "../parts";
import { useRights } from "../rights";
import { type RetentionInfo } from "../types";
import { plural } from "../words";

export const useRetention = (): Loaded<RetentionInfo> =>
  useData("retention", (signal) => get<RetentionInfo>("/v1/retention", {}, signal), []);

const THINNED = ["everything", "hourly", "daily", "weekly", "monthly"];
const EMPTY: RetentionInfo = { days: null, snapshots: null, thin: null, thin_days: null, dropped_days: null, drop_idle: false, branches: {}, tags: {}, grace_seconds: 3600 };

export const EVERYTHING = "every snapshot";

/** What a rule says, in words. */
export function ruleWords(of: RetentionInfo): string {
  const parts: string[] = [];
  if (of.days !== null) parts.push(`all of the last ${plural(of.days, "day")}`);
  if (of.snapshots !== null) parts.push(`the newest ${plural(of.snapshots, "snapshot")}`);
  if (of.thin !== null) parts.push(`${parts.length ? "then " : ""}one of each ${THINNED_OF[of.thin]}${of.thin_days === null ? "" : ` for ${plural(of.thin_days, "day")}`}`);
  if (of.drop_idle !== false) parts.push("a branch that nobody writes to is dropped");
  if (of.dropped_days !== null) parts.push(`what was dropped for ${plural(of.dropped_days, "day")}`);
  return parts.length ? parts.join(", ") : EVERYTHING;
}

const THINNED_OF: Record<string, string> = { hourly: "hour", daily: "day", weekly: "week", monthly: "month" };

/** What is kept, and a way to say it otherwise. */
export function RetentionRules(): JSX.Element {
  const kept = useRetention();
  const [asked, setAsked] = useState<{ pattern: string; rule: RetentionInfo } | null>(null), toSay = useRights().everywhere("maintainer");
  return (
    <Shown of={kept}>{(policy) => (
      <>
        <h3>What is kept</h3>
        <Rules of={policy} onChange={toSay ? undefined : (pattern, rule) => setAsked({ pattern, rule })} />
        {toSay ? <NotOffered of={[["Change what is kept", toSay]]} /> : <p><button type="button" onClick={() => setAsked({ pattern: "agent/*", rule: EMPTY })}>A rule for some branches…</button></p>}
        {asked && <RuleDialog {...asked} policy={policy} onClose={() => setAsked(null)} onDone={kept.reload} />}
      </>
    )}</Shown>
  );
}

/** The rules there are, a line each. */
export function Rules({ of, onChange }: { of: RetentionInfo; onChange?: (pattern: string, rule: RetentionInfo) => void }): JSX.Element {
  const lines: [pattern: string, words: string, rule: RetentionInfo][] = [["", "everywhere", of], ...Object.entries(of.branches).map(([pattern, rule]): [string, string, RetentionInfo] => [pattern, pattern, rule])];
  return (
    <dl class="facts">{lines.map(([pattern, words, rule]) => <><dt dir="auto">{words}</dt>
      <dd>{ruleWords(rule)}{onChange && <> <button type="button" aria-label={`Change what is kept: ${words}…`} onClick={() => onChange(pattern, rule)}>Change…</button></>}</dd></>)}
      {Object.entries(of.tags).map(([pattern, until]) => <><dt dir="auto">tags {pattern}</dt><dd>until {until}</dd></>)}</dl>
  );
}

const said = (value: number | null): string => (value === null ? "" : String(value));

/** A number that was typed; null is none, and what is no number is for the server to refuse. */
const numeral = (value: string): number | string | null => {
  const typed = value.trim();
  return typed === "" ? null : Number.isNaN(Number(typed)) ? typed : Number(typed);
};

function RuleDialog({ pattern, rule, policy, onClose, onDone }: { pattern: string; rule: RetentionInfo; policy: RetentionInfo; onClose: () => void; onDone: () => void }): JSX.Element {
  const isSome = pattern !== "", isKnown = pattern in policy.branches;
  const [name, setName] = useState(pattern), [days, setDays] = useState(said(rule.days)), [count, setCount] = useState(said(rule.snapshots));
  const [thin, setThin] = useState(rule.thin ?? THINNED[0]), [thinDays, setThinDays] = useState(said(rule.thin_days));
  const [idle, setIdle] = useState(rule.drop_idle === false ? "no" : "yes"), [isGone, setGone] = useState(false);
  const change = async (): Promise<void> => {
    const made = { ...rule, days: numeral(days), snapshots: numeral(count), thin: thin === THINNED[0] ? null : thin, thin_days: numeral(thinDays) };
    if (!isSome) await put("/v1/retention", made);
    else {
      // A length of time that was set stays as it was; of two patterns that a name is like, the first counts.
      const wanted: [string, unknown][] = isGone ? [] : [[name, { ...made, drop_idle: idle === "no" ? false : rule.drop_idle === false ? true : rule.drop_idle }]];
      const others = Object.entries(policy.branches).flatMap(([known, kept]): [string, unknown][] => known === pattern ? wanted : [[known, kept]]);
      await put("/v1/retention", { ...policy, branches: Object.fromEntries(isKnown ? others : [...others, ...wanted]) });
    }
    onDone();
  };
  return (
    <Dialog title={isSome ? "What is kept of some branches" : "What is kept"} action="Keep it so" isDanger onClose={onClose} onDone={change}>
      {isSome && <Field label="Branches" value={name} onChange={setName} required placeholder="agent/*" />}
      <Field label="All of the last days" value={days} onChange={setDays} placeholder="for ever" />
      <Field label="At least so many of the newest" value={count} onChange={setCount} placeholder="no number" />
      <Choice label="Of what is older, one of each" value={thin} options={THINNED} onChange={setThin} />
      {thin !== THINNED[0] && <Field label="For so many days" value={thinDays} onChange={setThinDays} placeholder="for ever" />}
      {isSome && <Choice label="Drop those that nobody writes to" value={idle} options={["no", "yes"]} onChange={setIdle} />}
      {isKnown && <label class="tick"><input type="checkbox" checked={isGone} onChange={(event) => setGone(event.currentTarget.checked)} /> Forget this rule: what holds everywhere holds for them</label>}
      <p class="note">Nothing is let go by this alone: upkeep does that, or “Free it…”. “What could be freed?” tells how much that would be.</p>
    </Dialog>
  );
}
