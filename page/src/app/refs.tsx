// Refs: branches and tags to choose from.
import { type JSX } from "preact";
import { get } from "./api";
import { useData } from "./live";
import { type BranchInfo } from "./types";

const PAGE = 1000, OFFERED = 500;

export function useBranches(): BranchInfo[] {
  return useData("branches", everyBranch, ["branch", "commit"]).data ?? [];
}

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
