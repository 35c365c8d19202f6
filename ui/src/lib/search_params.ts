// Reads search parameters of the URL, which may hold anything.

/** Return a parameter as text. The router parses values that look like numbers. */
export function textParam(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

/** Whether the text can be the id of a workflow or an alias. */
export function isId(text: string): boolean {
  return /^[A-Za-z0-9_-]{1,128}$/.test(text);
}
