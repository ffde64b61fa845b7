// Who is logged in, and to what.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { type About } from "./types";

export const Served = createContext<About>({ version: "", database: "", name: "", default_branch: null, read_only: null, user: "", position: "" });

export const useUser = (): string => useContext(Served).user;

/** The branch that is meant where none is named. */
export const useDefaultBranch = (): string => useContext(Served).default_branch ?? "main";
