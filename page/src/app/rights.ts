// What who is logged in may do, as the server told it: what it would refuse is not offered.
// The server decides all the same; what is not known yet is not doubted.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { type BranchDeed, type BranchInfo, type Me, type Role, type SyncDeed } from "./types";

export const ROLES: Role[] = ["reader", "writer", "maintainer", "owner"];

/** The role that a deed takes on its branch; rules, and what is in step, may ask for more. */
const TAKES: Record<BranchDeed, Role> = {
  write: "writer", merge: "writer", merge_request: "writer", change_schema: "maintainer", reset: "maintainer",
  rename: "maintainer", drop: "maintainer", retire: "maintainer", set_rule: "owner",
};

const has = (role: Role | null, needed: Role): boolean => role !== null && ROLES.indexOf(role) >= ROLES.indexOf(needed);

/** Whether a name is like a pattern: `*` is anything, `?` a letter. */
function isLike(name: string, pattern: string): boolean {
  const words = pattern.replace(/[.+^${}()|\\]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".").replaceAll("[!", "[^");
  return new RegExp(`^${words}$`, "s").test(name);
}

/** As much of a sync as says who may do what about it. */
export interface GuardedSync { name: string; target: string; may?: SyncDeed[] }

/** Each answers why something is refused to who is logged in: with nothing, if it is not. */
export class Rights {
  private readonly known: Map<string, BranchInfo> | null;

  constructor(private readonly me: Me, branches: BranchInfo[] | null, private readonly readOnly: string | null) {
    this.known = branches && new Map(branches.map((one) => [one.name, one]));
  }

  /** Something that is done to a branch. */
  on(branch: string, deed: BranchDeed): string {
    const found = this.known?.get(branch);
    if (this.readOnly) return this.readOnlyWords;
    if (!found || found.may.includes(deed)) return "";
    if (!has(found.role, TAKES[deed])) return `that takes the role ${TAKES[deed]} on ${branch}`;
    return deed === "merge" && found.may.includes("merge_request") ? `merges into ${branch} are asked for first, under Requests`
      : `the rule of ${branch}, or of what is in step with it, asks for more than your role`;
  }

  /** The same, done to any of some branches. */
  onAnyOf(branches: string[], deed: BranchDeed): string {
    const refusals = branches.map((branch) => this.on(branch, deed));
    return refusals.find((one) => one === "") ?? refusals[0] ?? "";
  }

  /** The same, done to any branch that one sees. */
  anywhere(deed: BranchDeed): string {
    if (this.readOnly) return this.readOnlyWords;
    if (!this.known || [...this.known.values()].some(({ may }) => may.includes(deed))) return "";
    return this.roleAnywhere(TAKES[deed]) || "the rules of all branches ask for more than your role";
  }

  /** Something that takes a role on a branch, whatever its rules are. */
  role(branch: string, needed: Role): string {
    const found = this.known?.get(branch);
    return !found || has(found.role, needed) ? "" : `that takes the role ${needed} on ${branch}`;
  }

  /** Something that takes a role on any branch that one sees. */
  roleAnywhere(needed: Role): string {
    return !this.known || [...this.known.values()].some(({ role }) => has(role, needed)) ? "" : `that takes the role ${needed} on a branch`;
  }

  /** Something that takes a role on a name, which may be new. */
  name(name: string, needed: Role): string {
    return this.me.grants.some((grant) => has(grant.role, needed) && isLike(name, grant.branches)) ? "" : `that takes the role ${needed} on ${name}`;
  }

  /** Something that takes a role on some name or other. */
  someName(needed: Role): string {
    if (this.readOnly) return this.readOnlyWords;
    return this.me.grants.some((grant) => has(grant.role, needed)) ? "" : `that takes the role ${needed} on the name of what is made`;
  }

  /** Something that is about the database as a whole. */
  everywhere(needed: Role): string {
    return has(this.me.everywhere, needed) ? "" : `that takes the role ${needed} on the whole database`;
  }

  /** Something that is done about a sync. */
  sync(sync: GuardedSync, deed: SyncDeed): string {
    if (this.readOnly) return this.readOnlyWords;
    if (!sync.may || sync.may.includes(deed)) return "";
    if (deed === "refresh") return `that takes the role writer on ${sync.target}`;
    return sync.may.includes("detach") ? "that takes the role owner on what takes merges only there" : `that takes the role maintainer on what ${sync.name} writes`;
  }

  private get readOnlyWords(): string {
    return `nothing can be written: ${this.readOnly}`;
  }
}

const NOBODY: Me = { name: "", grants: [], everywhere: null };

export const RightsKnown = createContext(new Rights(NOBODY, null, null));

export const useRights = (): Rights => useContext(RightsKnown);

/** What is not offered, and why: one sentence for each reason. */
export function refusedWords(refused: [words: string, refusal: string][]): string[] {
  const reasons = new Map<string, string[]>();
  for (const [words, refusal] of refused)
    if (refusal) reasons.set(refusal, [...(reasons.get(refusal) ?? []), words.replace(/…$/, "")]);
  return [...reasons].map(([refusal, words]) => `Not offered to you: ${words.join(", ")} – ${refusal}.`);
}
