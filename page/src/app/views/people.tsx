// People: who may do what, their tokens, and what was done.
import { type JSX } from "preact";
import { useState } from "preact/hooks";
import { get, post, remove, type Row, type Value } from "../api";
import { useData } from "../live";
import { Choice, Dialog, Field, Heading, Nothing, RowTable, Shown, Time } from "../parts";
import { ROLES, useRights } from "../rights";
import { type Me, type Rows, type UserInfo } from "../types";
import { text } from "../words";
import { ObjectGrants } from "./object_grants";
import { NewToken, Tokens } from "./tokens";

export function PeopleView(): JSX.Element {
  return useRights().everywhere("owner") ? <Myself /> : <Everybody />;
}

/** What who is no owner is told: what they may do themselves. */
function Myself(): JSX.Element {
  const found = useData("me", (signal) => get<Me>("/v1/me", {}, signal), ["branch"]);
  return (
    <section class="page">
      <Heading title="People" />
      <Shown of={found}>{(me) => (
        <ul class="cards"><li><b dir="auto">{me.name}</b><Roles of={me} /><ObjectGrants user={me.name} isOwner={false} onChange={() => {}} /></li></ul>)}</Shown>
      <Nothing><p>Who else may do what is told to owners of the database. Ask one of them for another role.</p></Nothing>
    </section>
  );
}

function Roles({ of }: { of: UserInfo }): JSX.Element {
  return (
    <>
      <ul class="plainlist">{of.grants.map((grant) => <li key={grant.role + grant.branches}>{grant.role} of {grant.branches === "*" ? "all branches" : <code>{grant.branches}</code>}</li>)}</ul>
      {of.grants.length === 0 && <p class="note">No role was granted yet.</p>}
    </>
  );
}

function Everybody(): JSX.Element {
  const found = useData("people", (signal) => get<{ users: UserInfo[] }>("/v1/users", {}, signal), []);
  const audit = useData("audit", (signal) => get<Rows>("/v1/audit", { limit: 50 }, signal), ["commit"]);
  const [isNew, setNew] = useState(false), [token, setToken] = useState("");
  const again = (): void => { found.reload(); audit.reload(); };
  return (
    <section class="page">
      <Heading title="People"><button type="button" class="main" onClick={() => setNew(true)}>Add somebody…</button></Heading>
      {token && <div class="fine" role="status"><p>Their token, shown this once:</p><code>{token}</code> <button type="button" onClick={() => setToken("")}>I have it</button></div>}
      <Shown of={found}>{({ users }) => users.length ? <ul class="cards">{users.map((user) => <Person key={user.name} user={user} onToken={(made) => { setToken(made); audit.reload(); }} onChange={again} />)}</ul>
        : <Nothing><p>No users yet: whoever has the token that the server printed owns everything.</p></Nothing>}</Shown>
      <h3>Audit trail</h3>
      <Shown of={audit}>{(told) => told.rows.length ? <Audit rows={told.rows} /> : <p class="note">Nothing yet.</p>}</Shown>
      {isNew && <NewPerson isFirst={found.data?.users.length === 0} onClose={() => { setNew(false); again(); }} />}
    </section>
  );
}

/** Values in words: what belongs together stands together. */
function words(value: Value): string {
  if (Array.isArray(value)) return value.map(words).join("; ");
  if (value === null || typeof value !== "object") return text(value) || "—";
  return Object.entries(value).map(([name, one]) => `${name.replaceAll("_", " ")} ${words(one)}`).join(", ");
}

/** What the trail has besides, which is kept as JSON. */
function detailWords(details: string): string {
  try {
    return words(JSON.parse(details) as Value) || "—";
  } catch {
    return details;
  }
}

/** What was done, in the words of the trail; times as everywhere. */
function Audit({ rows }: { rows: Row[] }): JSX.Element {
  const told = rows.map((row) => ({ ...row, action: text(row.action).replaceAll("_", " "), subject: row.subject || "—", details: detailWords(text(row.details)) }));
  return <RowTable columns={Object.keys(told[0]).map((name) => ({ name, type: "", nullable: true }))} rows={told} label="Audit trail"
    shown={(row, column) => column === "time" ? <Time of={text(row.time)} /> : null} />;
}

interface Question { title: string; action: string; act: () => Promise<unknown> }

function Person({ user, onToken, onChange }: { user: UserInfo; onToken: (token: string) => void; onChange: () => void }): JSX.Element {
  const [asked, setAsked] = useState<Question | null>(null), [isGranted, setGranted] = useState(false);
  const [areTokensShown, setTokensShown] = useState(false), [isTokenAsked, setTokenAsked] = useState(false);
  const [areViewsShown, setViewsShown] = useState(false);
  return (
    <li><b dir="auto">{user.name}</b>
      <ul class="plainlist">{user.grants.map((grant) => (
        <li key={grant.role + grant.branches}>{grant.role} of {grant.branches === "*" ? "all branches" : <code>{grant.branches}</code>} <button type="button" onClick={() => setAsked({ title: `Withdraw ${grant.role} from ${user.name}`, action: "Withdraw", act: () => remove("/v1/user/grants", { name: user.name, ...grant }) })}>Withdraw…</button></li>))}</ul>
      {user.grants.length === 0 && <p class="note">{user.name} may read nothing yet: grant a role.</p>}
      <div class="row"><button type="button" onClick={() => setGranted(true)}>Grant a role…</button>
        <button type="button" onClick={() => setTokenAsked(true)}>New token…</button>
        <button type="button" aria-expanded={areTokensShown} onClick={() => setTokensShown(!areTokensShown)}>Tokens</button>
        <button type="button" aria-expanded={areViewsShown} onClick={() => setViewsShown(!areViewsShown)}>Views</button>
        <button type="button" onClick={() => setAsked({ title: `Remove ${user.name}`, action: "Remove", act: () => remove("/v1/user", { name: user.name }) })}>Remove…</button></div>
      {areTokensShown && <Tokens user={user.name} onChange={onChange} />}
      {areViewsShown && <ObjectGrants user={user.name} isOwner onChange={onChange} />}
      {isGranted && <NewGrant user={user.name} onClose={() => { setGranted(false); onChange(); }} />}
      {isTokenAsked && <NewToken user={user.name} onToken={onToken} onClose={() => { setTokenAsked(false); setTokensShown(false); }} />}
      {asked && <Dialog title={asked.title} action={asked.action} isDanger onClose={() => { setAsked(null); onChange(); }} onDone={asked.act}>
        <p>What {user.name} did stays written down; what {user.name} may do ends at once.</p></Dialog>}</li>
  );
}

function NewGrant({ user, onClose }: { user: string; onClose: () => void }): JSX.Element {
  const [role, setRole] = useState("writer"), [branches, setBranches] = useState("");
  return (
    <Dialog title={`Grant ${user} a role`} action="Grant" onClose={onClose} onDone={() => post("/v1/user/grants", { name: user, role, branches })}>
      <Choice label="Role" value={role} options={ROLES} onChange={setRole} />
      <Field label="Branches (a pattern)" value={branches} onChange={setBranches} required placeholder="dev/*" />
    </Dialog>
  );
}

function NewPerson({ isFirst, onClose }: { isFirst: boolean; onClose: () => void }): JSX.Element {
  const [name, setName] = useState(""), [role, setRole] = useState(isFirst ? "owner" : "reader"), [branches, setBranches] = useState("*");
  return (
    <Dialog title="Add somebody" action="Add" onClose={onClose} onDone={() => post("/v1/users", { name, role, branches })}>
      <Field label="Name" value={name} onChange={setName} required />
      <Choice label="Role" value={role} options={ROLES} onChange={setRole} />
      <Field label="Branches (a pattern)" value={branches} onChange={setBranches} required />
      {isFirst && <p class="bad">From the first user on, the token that the server printed counts no more, here too: let it be an owner, and
        run <code>livingdb user token</code> beside the database for a token to log in with.</p>}
    </Dialog>
  );
}
