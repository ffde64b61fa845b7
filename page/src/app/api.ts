// The server's HTTP API: every request goes through here, and every failure has the same shape.

/** What went wrong, in the server's words; `code` is one of the error tree's, or of the connection. */
export class Failure extends Error {
  constructor(readonly code: string, message: string, readonly status: number, readonly details: Details = {}) {
    super(message);
  }
}

export type Details = Record<string, unknown>;
export type Value = string | number | boolean | null | Value[] | { [name: string]: Value };
export type Row = Record<string, Value>;
export type Query = Record<string, string | number | boolean | null | undefined | string[]>;

export interface Column { name: string; type: string; nullable: boolean }

export const ARROW = "application/vnd.apache.arrow.stream";
let csrf = "";

/** The address of something, without what is not given. */
export function address(path: string, query: Query = {}): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (Array.isArray(value)) for (const one of value) given.append(name, one);
    else if (value !== null && value !== undefined && value !== "") given.append(name, String(value));
  return given.size ? `${path}?${given}` : path;
}

async function send(method: string, path: string, accept: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { accept };
  if (method !== "GET") headers["x-csrf-token"] = csrf;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(path, {
      method, headers, signal, credentials: "same-origin",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failure("no_connection", "The server does not answer.", 0);
  }
  if (response.ok) return response;
  throw failureOf(response.status, response.statusText, await response.text());
}

/** What a refusal says; a proxy before the server may answer in words of its own. */
function failureOf(status: number, words: string, text: string): Failure {
  try {
    const said = (text ? JSON.parse(text) : {}) as { code?: string; message?: string; details?: Details };
    if (said.message) return new Failure(said.code ?? "unknown", said.message, status, said.details);
  } catch { /* It is told by its status. */ }
  const isGateway = status === 502 || status === 503 || status === 504;
  return new Failure(isGateway ? "no_connection" : "unknown", `The answer was ${status} ${words}`.trim() + ".", status);
}

/** Whatever was thrown, as a failure that can be told. */
export const asFailure = (error: unknown): Failure =>
  error instanceof Failure ? error : new Failure("page", String(error), 0);

async function ask<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const response = await send(method, path, "application/json", body, signal);
  const text = await response.text();
  return (text ? JSON.parse(text) : null) as T;
}

/** An answer in Arrow's stream format. */
export async function postForArrow(path: string, body: unknown): Promise<ArrayBuffer> {
  return (await send("POST", path, ARROW, body)).arrayBuffer();
}

export const get = <T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> =>
  ask("GET", address(path, query), undefined, signal);
export const post = <T>(path: string, body: unknown = {}, signal?: AbortSignal): Promise<T> => ask("POST", path, body, signal);
export const put = <T>(path: string, body: unknown): Promise<T> => ask("PUT", path, body);
export const patch = <T>(path: string, body: unknown): Promise<T> => ask("PATCH", path, body);
export const remove = <T>(path: string, query: Query): Promise<T> => ask("DELETE", address(path, query));

/** Become known by a token; from then on a cookie stands for it. */
export async function logIn(token: string): Promise<void> {
  const told = await post<{ csrf_token: string }>("/v1/login", { token });
  csrf = told.csrf_token;
  sessionStorage.setItem("csrf", csrf);
}

export async function logOut(): Promise<void> {
  await post("/v1/logout");
  sessionStorage.removeItem("csrf");
}

/** A session of this tab that was begun before it was loaded again. */
export function resume(): void {
  csrf = sessionStorage.getItem("csrf") ?? "";
}
