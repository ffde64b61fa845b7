// Tokens of a user: what each is for, whether it still counts, and an end to it.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { get, post, remove } from "../api";
import { useData } from "../live";
import { Dialog, Field, Shown, State, Time, Wide } from "../parts";

interface Token { id: string; note: string; made: string; until: string; revoked: string | null; used: string | null; is_valid: boolean }

/** The tokens of a user, newest first; never their secrets. */
export function Tokens({ user, onChange }: { user: string; onChange: () => void }): JSX.Element {
  const found = useData(`tokens ${user}`, (signal) => get<{ tokens: Token[] }>("/v1/user/tokens", { name: user }, signal), []);
  const [gone, setGone] = useState<Token | null>(null);
  const nameOf = (one: Token): string => one.note || one.id;
  return (
    <>
      <Shown of={found}>{({ tokens }) => tokens.length === 0 ? <p class="note">No token yet: {user} cannot log in.</p> : (
        <Wide label={`Tokens of ${user}`}><table class="summary stack"><thead><tr><th scope="col">Token</th><th scope="col">State</th><th scope="col">Made</th><th scope="col">Until</th><th scope="col">Last used</th><th scope="col">Revoke</th></tr></thead>
          <tbody>{tokens.map((one) => (
            <tr key={one.id}><th scope="row" dir="auto">{nameOf(one)}</th><td data-of="state"><State of={one.is_valid ? "active" : one.revoked ? "revoked" : "ended"} /></td>
              <td data-of="made"><Time of={one.made} /></td><td data-of="until"><Time of={one.until} /></td><td data-of="last used">{one.used ? <time dateTime={one.used}>{one.used.slice(0, 10)}</time> : "never"}</td>
              <td data-of="revoke">{one.is_valid ? <button type="button" aria-label={`Revoke ${nameOf(one)}…`} onClick={() => setGone(one)}>Revoke…</button> : "—"}</td></tr>))}</tbody></table></Wide>)}
      </Shown>
      {gone && <Dialog title={`Revoke a token of ${user}`} action="Revoke" isDanger onClose={() => setGone(null)} onDone={async () => { await remove("/v1/token", { id: gone.id }); found.reload(); onChange(); }}>
        <p>Who has the token <b dir="auto">{nameOf(gone)}</b> is not known by it any more, at once; the other tokens of {user} go on.</p></Dialog>}
    </>
  );
}

/** A new token, with what it is for and how long it counts. */
export function NewToken({ user, onToken, onClose }: { user: string; onToken: (token: string) => void; onClose: () => void }): JSX.Element {
  const [note, setNote] = useState(""), [days, setDays] = useState("90");
  return (
    <Dialog title={`A token for ${user}`} action="Make it" onClose={onClose} onDone={async () => onToken((await post<{ token: string }>("/v1/user/tokens", { name: user, note, days: Number(days) })).token)}>
      <Field label="What for" value={note} onChange={setNote} placeholder="laptop" />
      <Field label="For so many days" value={days} onChange={setDays} required />
    </Dialog>
  );
}
