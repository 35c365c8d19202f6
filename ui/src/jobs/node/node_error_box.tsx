// How something failed, in the words of whoever failed, and what can be done about it.

import type { ReactNode } from "react";
import type { NodeError } from "../../api/types";
import { adviceOn } from "./error_hints";

export function ErrorBox({ error, children }: { error: NodeError; children?: ReactNode }) {
  const advice = adviceOn(error);
  // Somebody asked for a cancel; nothing broke.
  const isWanted = error.type === "cancelled";
  return (
    <div
      className={`rounded-md border px-3 py-2 ${isWanted ? "border-cancelled/40 bg-cancelled/5" : "border-failed/40 bg-failed/5"}`}
    >
      <p className="break-words">
        <span className={`font-mono text-xs font-medium ${isWanted ? "text-cancelled" : "text-failed"}`}>
          {error.type ?? "error"}
        </span>
        {error.status !== undefined && <span className="text-muted"> · status {error.status}</span>}
        {children}
      </p>
      <p className="mt-0.5 whitespace-pre-wrap break-words font-medium">{error.message}</p>
      {advice && <p className="mt-1 text-muted">{advice}</p>}
      {error.traceback && (
        <details className="mt-1">
          <summary className="text-muted">Traceback</summary>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard */}
          <pre tabIndex={0} className="mt-1 max-h-72 overflow-auto rounded bg-sunken p-2 font-mono text-xs">
            {error.traceback}
          </pre>
        </details>
      )}
    </div>
  );
}
