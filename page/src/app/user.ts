// Who is logged in, and to what.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { get } from "./api";
import { useData } from "./live";
import { type About, type Me } from "./types";

export const Served = createContext<About>({ version: "", database: "", name: "", default_branch: null, read_only: null, user: "", position: "" });

export const useUser = (): string => useContext(Served).user;

/** The branch that is meant where none is named. */
export const useDefaultBranch = (): string => useContext(Served).default_branch ?? "main";

/** Whether a name is like a pattern: `*` is anything, `?` a letter. */
function isLike(name: string, pattern: string): boolean {
  const words = pattern.replace(/[.+^${}()|\\]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".").replaceAll("[!", "[^");
  return new RegExp(`^${words}$`, "s").test(name);
}

/** Whether who is logged in may write to a branch; until that is known it is not doubted. */
export function useMayWrite(branch: string): boolean {
  const me = useData("me", (signal) => get<Me>("/v1/me", {}, signal), []);
  return !me.data || me.data.grants.some((grant) => grant.role !== "reader" && isLike(branch, grant.branches));
}
