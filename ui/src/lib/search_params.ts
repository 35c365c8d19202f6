// What the search of an address says, read with care: anybody can write one.

/** The router reads what looks like a number as one. */
export function wordOf(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

/** Whether it may be the id of a workflow, or an alias. */
export function isId(text: string): boolean {
  return /^[A-Za-z0-9_-]{1,128}$/.test(text);
}
