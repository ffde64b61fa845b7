// What can be done about a sync: the same dialogs, rights and errors wherever it is met.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { Failure, get, post } from "./api";
import { Choice, Dialog, Field } from "./parts";
import { type Rights } from "./rights";
import { type JobInfo, type SyncDeed, type SyncInfo } from "./types";

export type SyncAction = Exclude<SyncDeed, "alter">;

/** As much of a sync as tells what can be done about it, and by whom. */
export interface ActedSync { name: string; target: string; state: string; kind: string; reason: string; may?: SyncDeed[] }

interface Words { button: string; does: string; asks: "reason" | "conflict" | null }

const WORDS: Record<SyncAction, Words> = {
  approve: { button: "Approve", does: "What it holds passes, in your name, and it goes on.", asks: "reason" },
  resume: { button: "Resume", does: "It goes on if its conditions hold now; what came up meanwhile is carried.", asks: null },
  reattach: { button: "Reattach", does: "Both branches are merged from where they were last in step, and kept in step from then on.", asks: "conflict" },
  detach: { button: "Detach", does: "Both branches go their own ways until somebody reattaches them.", asks: "reason" },
  refresh: { button: "Refresh", does: "It is brought up to date with its sources now.", asks: null },
};
const WINNERS: [string, string][] = [["fail", "stop and tell"], ["ours", "the source's values win"], ["theirs", "the target's values win"]];

/** What can be done about a sync as it stands, what helps most first. */
export function actionsOf(sync: ActedSync): SyncAction[] {
  const found: SyncAction[] = [];
  if (sync.state === "held") found.push("approve");
  if (sync.state === "held" || sync.state === "error") found.push("resume");
  if (sync.state !== "active") found.push("reattach");
  if (sync.kind === "derive" && sync.state === "active") found.push("refresh");
  if (sync.state !== "detached") found.push("detach");
  return found;
}

/** The same, of what is not for who is logged in: with why it is not. */
export const refusedOf = (sync: ActedSync, actions: SyncAction[], rights: Rights): [words: string, refusal: string][] =>
  actions.map((action) => [WORDS[action].button, rights.sync(sync, action)]);

export const wordsOf = (action: SyncAction): string => WORDS[action].button;

const PAUSE_MILLISECONDS = 250;

/** Wait for a job; what stopped it is told like any failure. */
async function finish(job: JobInfo, tell: (words: string) => void, signal: AbortSignal): Promise<void> {
  let now = job;
  while (["waiting", "running", "cancelling"].includes(now.state) && !signal.aborted) {
    tell(now.state === "waiting" ? "It waits for other work." : now.progress || "It runs.");
    await new Promise((done) => setTimeout(done, PAUSE_MILLISECONDS));
    now = await get<JobInfo>(`/v1/jobs/${job.id}`);
  }
  if (now.error) throw new Failure(now.error.code, now.error.message, 409);
  if (now.state === "cancelled") throw new Failure("cancelled", "Somebody cancelled it.", 409);
}

/** A question about a sync, with a reason to give where one is written down. */
export function SyncDialog({ sync, action, user, onClose }: { sync: ActedSync; action: SyncAction; user: string; onClose: () => void }): JSX.Element {
  const [reason, setReason] = useState(""), [winner, setWinner] = useState("fail"), [progress, setProgress] = useState("");
  const [stop] = useState(() => new AbortController());
  const { button, does, asks } = WORDS[action];
  const act = async (): Promise<void> => {
    if (action === "refresh")
      await finish(await post<JobInfo>("/v1/views/refresh", { name: sync.target }), setProgress, stop.signal);
    else {
      const now = await post<SyncInfo>("/v1/sync/action", { name: sync.name, action, reason, ...(asks === "conflict" ? { on_conflict: winner } : {}) });
      if (action === "approve" && now.state === "held")
        throw new Failure("waits_on", `Your approval is written down, and it waits on: ${now.reason}`, 409);
    }
  };
  return (
    <Dialog title={`${button} ${sync.name}`} action={button} isDanger={action === "detach"} onClose={() => { stop.abort(); onClose(); }} onDone={act}>
      <p>{does}</p>
      {sync.reason && <p class="bad" dir="auto">{sync.reason}</p>}
      {asks === "reason" && <Field label="Reason" value={reason} onChange={setReason} placeholder="what you found" />}
      {asks === "conflict" && <Choice label="Where both sides changed a row" value={winner} options={WINNERS} onChange={setWinner} />}
      {progress && <p role="status">{progress} It goes on if you close this: <a href="#/storage">jobs</a>.</p>}
      <p class="note">Written down as done by <span dir="auto">{user}</span>.</p>
    </Dialog>
  );
}
