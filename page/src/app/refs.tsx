// Refs: branches and tags to choose from.
import { type JSX } from "preact";
import { get } from "./api";
import { useData } from "./live";
import { type BranchInfo } from "./types";

const MOST = 500;

export function useBranches(): BranchInfo[] {
  const found = useData("branches", (signal) =>
    get<{ branches: BranchInfo[] }>("/v1/branches", { limit: MOST }, signal), ["branch", "commit"]);
  return found.data?.branches ?? [];
}

/** What can be typed where a ref is asked for; shown once on the page. */
export function RefList(): JSX.Element {
  const branches = useBranches();
  const tags = useData("tags", (signal) => get<{ tags: { name: string }[] }>("/v1/tags", {}, signal), ["tag", "branch"]);
  return (
    <datalist id="refs">
      {branches.map((branch) => <option value={branch.name} key={branch.name} />)}
      {(tags.data?.tags ?? []).map((tag) => <option value={tag.name} key={tag.name}>tag</option>)}
    </datalist>
  );
}
