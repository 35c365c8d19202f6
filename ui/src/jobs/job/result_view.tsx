// The input and result of a job.

import type { Job, Json } from "../../api/types";
import { EmptyState, Panel } from "../../components/controls";
import { CopyButton } from "../../components/copy_button";
import { JsonTree } from "../../components/json_tree";
import { isFinal } from "../job_status";

export function ResultView({ job }: { job: Job }) {
  return (
    <div className="grid gap-3 lg:grid-cols-2">
      <Panel title="Input" actions={<CopyJson value={job.input_data} />}>
        <div className="p-3">
          <JsonTree value={job.input_data} />
        </div>
      </Panel>
      <Panel title="Result" actions={job.result_data !== null && <CopyJson value={job.result_data} />}>
        {job.result_data === null ? (
          <EmptyState title={isFinal(job.status) ? "No result" : "No result yet"}>
            The outputs of completed nodes appear here when the job ends.
          </EmptyState>
        ) : (
          <div className="p-3">
            <JsonTree value={job.result_data} />
          </div>
        )}
      </Panel>
    </div>
  );
}

export function CopyJson({ value }: { value: Json }) {
  return <CopyButton text={() => JSON.stringify(value, null, 2)}>Copy JSON</CopyButton>;
}
