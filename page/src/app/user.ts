// Who is logged in.
import { createContext } from "preact";
import { useContext } from "preact/hooks";

export const User = createContext("");

export const useUser = (): string => useContext(User);
