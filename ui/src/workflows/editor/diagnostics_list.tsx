// The list of errors and warnings; selecting one moves the cursor to its line.

import type { Validation } from "../../api/types";
import { Panel } from "../../components/controls";
import { ErrorAlert } from "../../components/query_result";
import type { Diagnostic } from "./diagnostics";

interface DiagnosticsListProps {
  diagnostics: readonly Diagnostic[];
  validation: { data: Validation | undefined; error: unknown };
  onSelect(diagnostic: Diagnostic): void;
}

export function DiagnosticsList({ diagnostics, validation, onSelect }: DiagnosticsListProps) {
  if (validation.error) {
    return <ErrorAlert error={validation.error} title="Validation failed" />;
  }
  return (
    <Panel title="Problems">
      {diagnostics.length === 0 ? (
        <p className="px-4 py-3 text-muted">{validation.data ? "No problems" : "Validating…"}</p>
      ) : (
        <ul className="max-h-[60dvh] divide-y divide-line overflow-y-auto">
          {diagnostics.map((diagnostic) => (
            <li key={`${diagnostic.line} ${diagnostic.column} ${diagnostic.path} ${diagnostic.message}`}>
              <button
                type="button"
                className="block w-full px-4 py-2 text-left hover:bg-sunken focus-visible:-outline-offset-2"
                onClick={() => onSelect(diagnostic)}
              >
                <span className={`font-medium ${diagnostic.isError ? "text-failed" : "text-waiting"}`}>
                  {diagnostic.isError ? "✕ Error" : "! Warning"}, line {diagnostic.line}
                </span>
                <span className="block break-words">{diagnostic.message}</span>
                {diagnostic.hint && <span className="block break-words text-muted">{diagnostic.hint}</span>}
              </button>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}
