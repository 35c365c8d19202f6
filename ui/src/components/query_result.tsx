// Refusals with the server's own words, and loading that does not flicker.

import type { ReactNode } from "react";
import { Problem } from "../api/client";

export function ProblemBox({ error, title }: { error: unknown; title?: string }) {
  const problem = error instanceof Error ? error : new Error(String(error));
  const items = problem instanceof Problem ? problem.errors : [];
  return (
    <div role="alert" className="rounded-md border border-failed/40 bg-failed/5 px-4 py-3">
      <p className="font-medium text-failed">{title ?? "That did not work"}</p>
      <p className="mt-0.5 break-words">{problem.message}</p>
      {items.length > 0 && (
        <ul className="mt-2 list-disc space-y-1 pl-5">
          {items.map((item) => (
            <li key={`${item.path} ${item.message}`} className="break-words">
              {item.path && <code className="font-mono">{item.path}</code>} {item.message}
              {item.hint && <span className="text-muted"> ({item.hint})</span>}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

interface Asked<T> {
  data: T | undefined;
  error: unknown;
  isPending: boolean;
}

/** What a query found, or why there is nothing to show yet. */
export function Loaded<T>({ query, children }: { query: Asked<T>; children(data: T): ReactNode }) {
  if (query.data !== undefined) {
    return children(query.data);
  }
  return query.error ? <ProblemBox error={query.error} /> : <p className="p-6 text-muted">Loading…</p>;
}
