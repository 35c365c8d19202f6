// HTTP client of the API: JSON requests and responses; error responses become an ApiError.

/** One entry of a problem response, with its position in a document if there is one. */
export interface ErrorDetail {
  path: string;
  message: string;
  hint?: string | null;
  line?: number | null;
  column?: number | null;
}

/** An error response of the API. Status 0 means that the server is unreachable. */
export class ApiError extends Error {
  readonly status: number;
  readonly errors: ErrorDetail[];

  constructor(status: number, detail: string, errors: ErrorDetail[] = []) {
    super(detail);
    this.name = "ApiError";
    this.status = status;
    this.errors = errors;
  }
}

/** Query parameters; undefined, null and empty values are omitted. */
export type Query = Record<string, string | number | boolean | undefined | null>;

export const API = "/api/v1";

export function withQuery(path: string, query: Query = {}): string {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
  return search ? `${path}?${search}` : path;
}

/** Return a path of the API; every segment is escaped. */
export function apiPath(...segments: (string | number)[]): string {
  return `${API}/${segments.map((segment) => encodeURIComponent(segment)).join("/")}`;
}

export async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return (await request(withQuery(path, query), { signal })).json() as Promise<T>;
}

export async function getText(path: string, signal?: AbortSignal): Promise<string> {
  return (await request(path, { signal })).text();
}

export async function send<T>(
  method: "POST" | "PUT" | "DELETE",
  path: string,
  body?: unknown,
  contentType = "application/json",
): Promise<T> {
  const init: RequestInit = { method };
  if (body !== undefined) {
    init.headers = { "content-type": contentType };
    init.body = typeof body === "string" ? body : JSON.stringify(body);
  }
  const response = await request(path, init);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

/** Send a request; throw an ApiError unless the response is successful. */
export async function request(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") {
      throw error;
    }
    throw new ApiError(0, "The server is unreachable.");
  }
  if (!response.ok) {
    throw await toApiError(response);
  }
  return response;
}

export async function toApiError(response: Response): Promise<ApiError> {
  const body = await response.text();
  try {
    const { detail, title, errors } = JSON.parse(body) as { detail?: string; title?: string; errors?: ErrorDetail[] };
    return new ApiError(response.status, detail ?? title ?? response.statusText, errors ?? []);
  } catch {
    return new ApiError(response.status, body.slice(0, 500) || `The server responded with status ${response.status}.`);
  }
}
