// Refs: branches and tags to choose from.
import { createContext, type JSX } from "preact";
import { useContext } from "preact/hooks";
import { get } from "./api";
import { useData, type Loaded } from "./live";
import { type BranchInfo } from "./types";

const PAGE = 1000, OFFERED = 500;

/** Every branch that one sees; nothing until that is known. */
export const Branches = createContext<BranchInfo[] | null>(null);

export const useBranches = (): BranchInfo[] => useContext(Branches) ?? [];

/** What the page asks for once, for all that is on it. */
export const useEveryBranch = (): Loaded<BranchInfo[]> => useData("branches", everyBranch, ["branch", "commit"]);

async function everyBranch(signal: AbortSignal): Promise<BranchInfo[]> {
  const found: BranchInfo[] = [];
  for (let after: string | null = ""; after !== null;) {
    const page: { branches: BranchInfo[]; next: string | null } = await get("/v1/branches", { limit: PAGE, after }, signal);
    found.push(...page.branches);
    after = page.next;
  }
  return found;
}

/** What can be typed where a ref is asked for; shown once on the page. */
export function RefList(): JSX.Element {
  const branches = useBranches();
  const tags = useData("tags", (signal) => get<{ tags: { name: string }[] }>("/v1/tags", {}, signal), ["tag", "branch"]);
  return (
    <datalist id="refs">
      {branches.slice(0, OFFERED).map((branch) => <option value={branch.name} key={branch.name} />)}
      {(tags.data?.tags ?? []).map((tag) => <option value={tag.name} key={tag.name}>tag</option>)}
    </datalist>
  );
}
