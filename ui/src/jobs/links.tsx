// Links to jobs and workflows.

import { Link } from "@tanstack/react-router";
import { CopyButton } from "../components/copy_button";
import { isInternal } from "./internal_workflow";

// Ids start with a timestamp; this prefix is unique in practice and can be searched.
const SHORT_ID_LENGTH = 12;

export function shortId(jobId: string): string {
  return jobId.slice(0, SHORT_ID_LENGTH);
}

export function JobLink({ jobId, copy = false }: { jobId: string; copy?: boolean }) {
  return (
    <span className="inline-flex items-center gap-0.5 whitespace-nowrap">
      <Link
        to="/jobs/$jobId"
        params={{ jobId }}
        title={jobId}
        className="font-mono text-[0.8125rem] text-accent underline-offset-2 hover:underline"
      >
        {shortId(jobId)}
      </Link>
      {copy && (
        <CopyButton
          text={jobId}
          label={`Copy job id ${jobId}`}
          className="opacity-0 focus-visible:opacity-100 group-hover:opacity-100"
        />
      )}
    </span>
  );
}

/** A link to a workflow; only its id if the workflow is internal and has no page. */
export function WorkflowLink({ workflowId, version }: { workflowId: string; version?: number }) {
  if (isInternal(workflowId)) {
    return <span className="break-words">{workflowId}</span>;
  }
  return (
    <span className="break-words">
      <Link to="/workflows/$workflowId" params={{ workflowId }} className="underline-offset-2 hover:underline">
        {workflowId}
      </Link>
      {version !== undefined && <span className="font-normal text-muted">@{version}</span>}
    </span>
  );
}
