// Requests to the API, and what went wrong with them.
import type { ProblemBody } from "./api.ts";

/** Next to the pages, wherever they are served. */
const base = () => new URL("api/v1/", document.baseURI);

/** An error that says what to do. */
export class Problem extends Error {
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly hint: string;
  /** `urn:weir:` and a word. */
  readonly kind: string;
  readonly place: { from: number; to: number } | null;

  constructor(body: ProblemBody) {
    super(body.detail ?? body.title);
    this.title = body.title;
    this.kind = body.type ?? "";
    this.status = body.status;
    this.detail = body.detail ?? "";
    this.hint = body.hint ?? "";
    this.place = body.place ?? null;
  }
}

export type ParameterValue = string | number | boolean | null | undefined;
export type RequestParameters = Record<string, ParameterValue>;

/** In place of a tag: there is no file of the name. */
export const NO_FILE = "none";

export interface RequestOptions {
  method?: "GET" | "POST" | "PUT" | "DELETE";
  /** Sent as JSON, or as it is when it is text. */
  body?: object | string;
  signal?: AbortSignal;
  /** The tag of the file that a change is based on, or `NO_FILE`: it is refused when somebody else has changed or made the file. */
  ifMatch?: string;
}

export function addressOfApi(path: string, parameters: RequestParameters = {}): string {
  const address = new URL(path.replace(/^\//, ""), base());
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== "") address.searchParams.set(name, String(value));
  }
  return address.href;
}

export async function request<T>(path: string, parameters: RequestParameters = {}, options: RequestOptions = {}): Promise<T> {
  const method = options.method ?? "GET";
  const headers: Record<string, string> = { Accept: "application/json" };
  if (options.body !== undefined) headers["Content-Type"] = typeof options.body === "string" ? "text/plain; charset=utf-8" : "application/json";
  if (options.ifMatch === NO_FILE) headers["If-None-Match"] = "*";
  // a file that is no text has an empty tag: whatever there is
  else if (options.ifMatch !== undefined) headers["If-Match"] = options.ifMatch || "*";
  const body = typeof options.body === "object" ? JSON.stringify(options.body) : options.body;
  const response = await reach(path, parameters, { method, headers, signal: options.signal, body });
  if (response.status === 204) return undefined as T;
  const text = await response.text();
  if (text === "") return undefined as T;
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new Problem({
      title: "the answer is no JSON",
      status: response.status,
      detail: `${path} answered ${text.slice(0, 80)}`,
      hint: "a proxy may stand in between, or the pages and the server are of different versions: reload the page",
    });
  }
}

/** An answer that is one; everything else is a problem. */
async function reach(path: string, parameters: RequestParameters, options: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(addressOfApi(path, parameters), options);
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new Problem({
      title: "the server cannot be reached",
      status: 0,
      detail: "the request got no answer",
      hint: "see whether `weir serve` runs and whether this machine reaches it; nothing you typed is lost",
    });
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

/** A file, with the name that the server gives it. */
export async function fetchFile(path: string, parameters: RequestParameters, signal: AbortSignal): Promise<{ name: string; blob: Blob }> {
  const response = await reach(path, parameters, { signal });
  const name = /filename="([\w.-]+)"/.exec(response.headers.get("content-disposition") ?? "")?.[1] ?? "";
  return { name, blob: await response.blob() };
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return new Problem({ title: "the page made a mistake", status: 0, detail, hint: "reload the page; what you typed is kept" });
}

async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text().catch(() => "");
  try {
    const body = JSON.parse(text) as Partial<ProblemBody>;
    if (typeof body.title === "string") return new Problem({ ...body, title: body.title, status: body.status ?? response.status });
  } catch {
    // Not of this server, or it failed early: what there is, is shown.
  }
  const title = response.statusText === "" ? `status ${response.status}` : response.statusText.toLowerCase();
  return new Problem({ title, status: response.status, detail: text.slice(0, 300), hint: hintFor(response.status) });
}

function hintFor(status: number): string {
  if (status === 401) return "sign in";
  if (status === 403) return "your role may not do this: ask who runs this server";
  if (status === 404) return "the server has no such thing: it may be older than these pages";
  if (status === 429 || status === 503) return "the server is busy: try again in a moment";
  return status >= 500 ? "the log of `weir serve` says more" : "";
}
