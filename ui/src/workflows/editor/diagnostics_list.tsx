// What the server found in a document; picking one leads to its line.

import type { Validation } from "../../api/types";
import { Code, Panel } from "../../components/controls";
import { ProblemBox } from "../../components/query_result";
import type { Mark } from "./diagnostics";

interface ProblemsProps {
  marks: readonly Mark[];
  validation: { data: Validation | undefined; error: unknown };
  onPick(mark: Mark): void;
}

export function Problems({ marks, validation, onPick }: ProblemsProps) {
  if (validation.error) {
    return <ProblemBox error={validation.error} title="The document could not be checked" />;
  }
  return (
    <Panel title="Problems">
      {marks.length === 0 ? (
        <p className="px-4 py-3 text-muted">
          {validation.data ? (
            <>
              None: <Code>{validation.data.workflow_id ?? "it"}</Code> can be deployed.
            </>
          ) : (
            "Checking…"
          )}
        </p>
      ) : (
        <ul className="max-h-[60dvh] divide-y divide-line overflow-y-auto">
          {marks.map((mark) => (
            <li key={`${mark.line} ${mark.column} ${mark.path} ${mark.message}`}>
              <button
                type="button"
                className="block w-full px-4 py-2 text-left hover:bg-sunken focus-visible:-outline-offset-2"
                onClick={() => onPick(mark)}
              >
                <span className={`font-medium ${mark.grave ? "text-failed" : "text-waiting"}`}>
                  {mark.grave ? "✕ Error" : "! Warning"}, line {mark.line}
                </span>
                <span className="block break-words">{mark.message}</span>
                {mark.hint && <span className="block break-words text-muted">{mark.hint}</span>}
              </button>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}
