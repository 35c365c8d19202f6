// The workflows that can be run now, each with a button that runs it and shows it at once.

import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";
import { at, send } from "../../api/client";
import { workflowsQuery } from "../../api/queries";
import type { Workflow } from "../../api/types";
import { Button, Code, Empty } from "../../components/controls";
import { Dialog } from "../../components/dialog";
import { Loaded, ProblemBox } from "../../components/query_result";

const SHOWN_MAX = 100;

export function RunDialog({ onClose }: { onClose(): void }) {
  return (
    <Dialog title="Run a workflow" onClose={onClose}>
      <RunList />
    </Dialog>
  );
}

export function RunList() {
  const workflows = useQuery(workflowsQuery({ limit: SHOWN_MAX }));
  const navigate = useNavigate();
  useEffect(() => {
    // Where Run leads: it should be there before the job is half over.
    void import("../job/job_page");
  }, []);
  const run = useMutation({
    mutationFn: (workflowId: string) => send<{ job_id: string }>("POST", at("jobs"), { workflow_id: workflowId }),
    onSuccess: ({ job_id }) => navigate({ to: "/jobs/$jobId", params: { jobId: job_id } }),
  });
  return (
    <Loaded query={workflows}>
      {({ items }) =>
        items.length === 0 ? (
          <NothingDeployed />
        ) : (
          <ul className="divide-y divide-line">
            {items.map((workflow) => (
              <Runnable
                key={workflow.workflow_id}
                workflow={workflow}
                busy={run.isPending}
                problem={run.variables === workflow.workflow_id ? run.error : null}
                onRun={() => run.mutate(workflow.workflow_id)}
              />
            ))}
          </ul>
        )
      }
    </Loaded>
  );
}

function NothingDeployed() {
  return (
    <Empty title="No workflow is deployed yet">
      Write one into a file and run <Code>windlass deploy FILE</Code>, or open the{" "}
      <Link to="/workflows" className="text-accent underline">
        workflows
      </Link>
      .
    </Empty>
  );
}

function Runnable({
  workflow,
  busy,
  problem,
  onRun,
}: {
  workflow: Workflow;
  busy: boolean;
  problem: Error | null;
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
        <Button look="main" disabled={busy} aria-label={`Run ${workflowId}`} onClick={onRun}>
          Run
        </Button>
      </div>
      {problem && (
        <div className="mt-2 space-y-2 text-left">
          <ProblemBox error={problem} title="It was not started" />
          <Link
            to="/workflows/$workflowId"
            params={{ workflowId }}
            search={{ tab: "run" }}
            className="text-accent hover:underline"
          >
            Fill in its input
          </Link>
        </div>
      )}
    </li>
  );
}
