// The result of a query: its data, an error, or a loading message.

import type { ReactNode } from "react";
import { ApiError } from "../api/client";

export function ErrorAlert({ error, title = "Request failed" }: { error: unknown; title?: string }) {
  const message = error instanceof Error ? error.message : String(error);
  const details = error instanceof ApiError ? error.errors : [];
  return (
    <div role="alert" className="rounded-md border border-failed/40 bg-failed/5 px-4 py-3">
      <p className="font-medium text-failed">{title}</p>
      <p className="mt-0.5 break-words">{message}</p>
      {details.length > 0 && (
        <ul className="mt-2 list-disc space-y-1 pl-5">
          {details.map((detail) => (
            <li key={`${detail.path} ${detail.message}`} className="break-words">
              {detail.path && <code className="font-mono">{detail.path}</code>} {detail.message}
              {detail.hint && <span className="text-muted"> ({detail.hint})</span>}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

interface Query<T> {
  data: T | undefined;
  error: unknown;
  isPending: boolean;
}

/** Render the data of a query, also while it is refetched or after a refetch failed. */
export function QueryResult<T>({ query, children }: { query: Query<T>; children(data: T): ReactNode }) {
  if (query.data !== undefined) {
    return children(query.data);
  }
  return query.error ? <ErrorAlert error={query.error} /> : <p className="p-6 text-muted">Loading…</p>;
}
