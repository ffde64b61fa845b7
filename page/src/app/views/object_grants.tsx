// Views that somebody may read without what they are made of: told, granted and withdrawn.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { get, post, remove } from "../api";
import { useData } from "../live";
import { Dialog, Field, Shown, State, Time, Wide } from "../parts";
import { to } from "../route";
import { type SyncInfo } from "../types";

interface Grant { object: string; by: string; time: string; is_valid: boolean }

/** The derived objects that were granted to a user; who does not own the database takes none away. */
export function ObjectGrants({ user, isOwner, onChange }: { user: string; isOwner: boolean; onChange: () => void }): JSX.Element {
  const found = useData(`objects ${user}`, (signal) => get<{ objects: Grant[] }>("/v1/user/objects", { name: user }, signal), ["sync", "branch"]);
  const [gone, setGone] = useState<Grant | null>(null), [isNew, setNew] = useState(false);
  const again = (): void => { found.reload(); onChange(); };
  return (
    <>
      <Shown of={found}>{({ objects }) => objects.length === 0 ? <p class="note">No view was granted by itself: {user} reads those whose sources {user} may read.</p> : (
        <Wide label={`Views granted to ${user}`}><table class="summary stack"><thead><tr><th scope="col">View</th><th scope="col">State</th><th scope="col">Granted by</th><th scope="col">Since</th>{isOwner && <th scope="col">Withdraw</th>}</tr></thead>
          <tbody>{objects.map((one) => (
            <tr key={one.object}><th scope="row"><a href={to("data", { ref: one.object })} dir="auto">{one.object}</a></th><td data-of="state"><State of={one.is_valid ? "active" : "ended"} /></td>
              <td data-of="granted by" dir="auto">{one.by}</td><td data-of="since"><Time of={one.time} /></td>
              {isOwner && <td data-of="withdraw"><button type="button" aria-label={`Withdraw ${one.object}…`} onClick={() => setGone(one)}>Withdraw…</button></td>}</tr>))}</tbody></table></Wide>)}
      </Shown>
      {found.data?.objects.some((one) => !one.is_valid) && <p class="note">One that ended counts no more, since who granted it may not read its sources any more.</p>}
      {isOwner && <p><button type="button" onClick={() => setNew(true)}>Grant a view…</button></p>}
      {isNew && <NewObjectGrant user={user} onClose={() => setNew(false)} onDone={again} />}
      {gone && <Dialog title={`Withdraw ${gone.object} from ${user}`} action="Withdraw" isDanger onClose={() => setGone(null)} onDone={async () => { await remove("/v1/user/objects", { name: user, object: gone.object }); again(); }}>
        <p>{user} reads <b dir="auto">{gone.object}</b> no more, at once, unless a role says so.</p></Dialog>}
    </>
  );
}

function NewObjectGrant({ user, onClose, onDone }: { user: string; onClose: () => void; onDone: () => void }): JSX.Element {
  const syncs = useData("derived objects", (signal) => get<{ syncs: SyncInfo[] }>("/v1/syncs", {}, signal), ["sync"]);
  const [object, setObject] = useState("");
  const names = (syncs.data?.syncs ?? []).filter(({ kind }) => kind === "derive").map(({ target }) => target);
  return (
    <Dialog title={`Let ${user} read a view`} action="Grant" onClose={onClose} onDone={async () => { await post("/v1/user/objects", { name: user, object }); onDone(); }}>
      <p>{user} reads its rows and their history, and nothing of what it is made of.</p>
      <Field label="View, model or clone" value={object} onChange={setObject} required list="derived" />
      <datalist id="derived">{names.map((name) => <option value={name} key={name} />)}</datalist>
      <p class="note">It counts as long as you may read its sources.</p>
    </Dialog>
  );
}
