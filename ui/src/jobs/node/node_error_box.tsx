// An error with its message, a hint and the traceback.

import type { ReactNode } from "react";
import type { NodeError } from "../../api/types";
import { errorHint } from "./error_hints";

export function NodeErrorBox({ error, children }: { error: NodeError; children?: ReactNode }) {
  const hint = errorHint(error);
  // A cancellation was requested and is not a failure.
  const isCancelled = error.type === "cancelled";
  return (
    <div
      className={`rounded-md border px-3 py-2 ${isCancelled ? "border-cancelled/40 bg-cancelled/5" : "border-failed/40 bg-failed/5"}`}
    >
      <p className="break-words">
        <span className={`font-mono text-xs font-medium ${isCancelled ? "text-cancelled" : "text-failed"}`}>
          {error.type ?? "error"}
        </span>
        {error.status !== undefined && <span className="text-muted"> · status {error.status}</span>}
        {children}
      </p>
      <p className="mt-0.5 whitespace-pre-wrap break-words font-medium">{error.message}</p>
      {hint && <p className="mt-1 text-muted">{hint}</p>}
      {error.traceback && (
        <details className="mt-1">
          <summary className="text-muted">Traceback</summary>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard */}
          <pre tabIndex={0} className="mt-1 max-h-72 overflow-auto rounded bg-sunken p-2 font-mono text-xs">
            {error.traceback}
          </pre>
        </details>
      )}
    </div>
  );
}
