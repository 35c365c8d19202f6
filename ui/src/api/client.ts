// Talks to the server: JSON in and out, every refusal as a Problem with the server's own words.

export interface ProblemItem {
  path: string;
  message: string;
  hint?: string | null;
  line?: number | null;
  column?: number | null;
}

export class Problem extends Error {
  readonly status: number;
  readonly errors: ProblemItem[];

  constructor(status: number, detail: string, errors: ProblemItem[] = []) {
    super(detail);
    this.name = "Problem";
    this.status = status;
    this.errors = errors;
  }
}

/** What a path is asked for; what is undefined or empty is left out. */
export type Query = Record<string, string | number | boolean | undefined | null>;

export const API = "/api/v1";

export function address(path: string, query: Query = {}): string {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const asked = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
  return asked ? `${path}?${asked}` : path;
}

/** A path of the API; every part is escaped. */
export function at(...parts: (string | number)[]): string {
  return `${API}/${parts.map((part) => encodeURIComponent(part)).join("/")}`;
}

export async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return (await answered(address(path, query), { signal })).json() as Promise<T>;
}

export async function text(path: string, signal?: AbortSignal): Promise<string> {
  return (await answered(path, { signal })).text();
}

export async function send<T>(
  method: "POST" | "PUT" | "DELETE",
  path: string,
  body?: unknown,
  type = "application/json",
): Promise<T> {
  const init: RequestInit = { method };
  if (body !== undefined) {
    init.headers = { "content-type": type };
    init.body = typeof body === "string" ? body : JSON.stringify(body);
  }
  const response = await answered(path, init);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

async function answered(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") {
      throw error;
    }
    throw new Problem(0, "The server does not answer. It is asked again until it does.");
  }
  if (!response.ok) {
    throw await problemOf(response);
  }
  return response;
}

export async function problemOf(response: Response): Promise<Problem> {
  const told = await response.text();
  try {
    const { detail, title, errors } = JSON.parse(told) as { detail?: string; title?: string; errors?: ProblemItem[] };
    return new Problem(response.status, detail ?? title ?? response.statusText, errors ?? []);
  } catch {
    return new Problem(response.status, told.slice(0, 500) || `The server answered ${response.status}.`);
  }
}
