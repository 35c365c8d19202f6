// Workflows with a button that runs one and opens its job.

import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";
import { apiPath, send } from "../../api/client";
import { workflowsQuery } from "../../api/queries";
import type { Workflow } from "../../api/types";
import { Button, Code, EmptyState } from "../../components/controls";
import { Dialog } from "../../components/dialog";
import { ErrorAlert, QueryResult } from "../../components/query_result";

const WORKFLOWS_MAX = 100;

export function RunWorkflowDialog({ onClose }: { onClose(): void }) {
  return (
    <Dialog title="Run workflow" onClose={onClose}>
      <RunWorkflowList />
    </Dialog>
  );
}

export function RunWorkflowList() {
  const workflows = useQuery(workflowsQuery({ limit: WORKFLOWS_MAX }));
  const navigate = useNavigate();
  useEffect(() => {
    // Preload the page that opens next, so that it shows the job from its start.
    void import("../job/job_page");
  }, []);
  const run = useMutation({
    mutationFn: (workflowId: string) => send<{ job_id: string }>("POST", apiPath("jobs"), { workflow_id: workflowId }),
    onSuccess: ({ job_id }) => navigate({ to: "/jobs/$jobId", params: { jobId: job_id } }),
  });
  return (
    <QueryResult query={workflows}>
      {({ items }) =>
        items.length === 0 ? (
          <NoWorkflows />
        ) : (
          <ul className="divide-y divide-line">
            {items.map((workflow) => (
              <WorkflowRow
                key={workflow.workflow_id}
                workflow={workflow}
                isBusy={run.isPending}
                error={run.variables === workflow.workflow_id ? run.error : null}
                onRun={() => run.mutate(workflow.workflow_id)}
              />
            ))}
          </ul>
        )
      }
    </QueryResult>
  );
}

function NoWorkflows() {
  return (
    <EmptyState title="No workflows deployed">
      Run <Code>windlass deploy FILE</Code>, or{" "}
      <Link to="/editor" className="text-accent underline">
        create a workflow
      </Link>
      .
    </EmptyState>
  );
}

function WorkflowRow({
  workflow,
  isBusy,
  error,
  onRun,
}: {
  workflow: Workflow;
  isBusy: boolean;
  error: Error | null;
  onRun(): void;
}) {
  const { workflow_id: workflowId, description } = workflow;
  return (
    <li className="py-2">
      <div className="flex items-center gap-3">
        <div className="min-w-0 flex-1 text-left">
          <Link to="/workflows/$workflowId" params={{ workflowId }} className="break-words font-medium hover:underline">
            {workflowId}
          </Link>
          {description && <p className="text-muted">{description}</p>}
        </div>
        <Button variant="primary" disabled={isBusy} aria-label={`Run ${workflowId}`} onClick={onRun}>
          Run
        </Button>
      </div>
      {error && (
        <div className="mt-2 space-y-2 text-left">
          <ErrorAlert error={error} title="Start failed" />
          <Link
            to="/workflows/$workflowId"
            params={{ workflowId }}
            search={{ tab: "run" }}
            className="text-accent hover:underline"
          >
            Enter input
          </Link>
        </div>
      )}
    </li>
  );
}
