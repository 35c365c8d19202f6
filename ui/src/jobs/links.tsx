// Jobs, workflows and nodes by name, and the way to their pages.

import { Link } from "@tanstack/react-router";
import { CopyButton } from "../components/copy_button";

// Ids begin with their time; so much of one tells jobs apart and finds them again.
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
          label={`Copy the id ${jobId}`}
          className="opacity-0 focus-visible:opacity-100 group-hover:opacity-100"
        />
      )}
    </span>
  );
}

export function WorkflowLink({ workflowId, version }: { workflowId: string; version?: number }) {
  return (
    <span className="break-words">
      <Link to="/workflows/$workflowId" params={{ workflowId }} className="underline-offset-2 hover:underline">
        {workflowId}
      </Link>
      {version !== undefined && <span className="font-normal text-muted">@{version}</span>}
    </span>
  );
}
