// What a branch asks of merge requests: told where one is looked at, and set there.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { get, put } from "../api";
import { tellChanged, useData } from "../live";
import { Dialog, Field, Shown } from "../parts";
import { useRights } from "../rights";
import { plural } from "../words";

interface Rule { approvals: number; merge_only: boolean; checks: { text: string; action?: string; severity?: string }[] }

/** What a rule says, in words. */
function ruleWords({ approvals, merge_only, checks }: Rule): string {
  const asked = approvals ? `asks for ${plural(approvals, "approval")}` : "asks for no approval";
  const guarded = checks.length ? `, has ${plural(checks.length, "condition")}` : "";
  return `${asked}${guarded} and takes ${merge_only ? "nothing but merges" : "changes by hand, too"}`;
}

/** What a branch asks of requests that lead to it, and a way to say it otherwise. */
export function MergeRule({ branch, onChange }: { branch: string; onChange?: () => void }): JSX.Element {
  const found = useData(`rule ${branch}`, (signal) => get<Rule>("/v1/merge-rule", { branch }, signal), ["branch", "merge_request"]);
  const [isAsked, setAsked] = useState(false), toSet = useRights().on(branch, "set_rule");
  return (
    <Shown of={found}>{(rule) => (
      <>
        <p class="note"><b dir="auto">{branch}</b> {ruleWords(rule)}. {!toSet && <button type="button" aria-label={`Change what ${branch} asks…`} onClick={() => setAsked(true)}>Change…</button>}</p>
        {isAsked && <RuleDialog branch={branch} rule={rule} onClose={() => setAsked(false)} onDone={() => { found.reload(); tellChanged("branch"); onChange?.(); }} />}
      </>
    )}</Shown>
  );
}

function RuleDialog({ branch, rule, onClose, onDone }: { branch: string; rule: Rule; onClose: () => void; onDone: () => void }): JSX.Element {
  const [approvals, setApprovals] = useState(String(rule.approvals)), [only, setOnly] = useState(rule.merge_only);
  const change = async (): Promise<void> => {
    await put("/v1/merge-rule", { branch, approvals: Number(approvals), checks: rule.checks.map(({ text, action, severity }) => ({ text, action, severity })), merge_only: only });
    onDone();
  };
  return (
    <Dialog title={`What ${branch} asks`} action="Ask it" onClose={onClose} onDone={change}>
      <Field label="Approvals by others before a merge" value={approvals} onChange={setApprovals} required />
      <label class="tick"><input type="checkbox" checked={only} onChange={(event) => setOnly(event.currentTarget.checked)} /> It takes nothing but merges: nobody writes to it by hand</label>
      {rule.checks.length > 0 && <p class="note">Its {plural(rule.checks.length, "condition")} stay as they are.</p>}
    </Dialog>
  );
}
