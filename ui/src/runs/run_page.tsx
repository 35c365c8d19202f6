// One run: lifecycle, details, metrics, violations and deliveries.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { apiPath, get, send } from "../api/client";
import { LIVE_INTERVAL_MS } from "../api/queries";
import type { Run } from "../api/types";
import { Button, Field, linkClass, PageHeader, Panel } from "../components/controls";
import { Detail, DetailList } from "../components/details";
import { Dialog } from "../components/dialog";
import { isNotFound, NotFound } from "../components/not_found";
import { ErrorAlert, QueryResult } from "../components/query_result";
import { Status, statusText } from "../components/status";
import { Cell, RowHeader, Table } from "../components/table";
import { Timestamp } from "../components/time";
import { JobLink, WorkflowLink } from "../jobs/links";
import { usePageTitle } from "../lib/page_title";
import { EventPanel } from "./event_table";
import { isFinal } from "./lifecycle";
import { LifecycleSteps } from "./lifecycle_steps";
import { runStatus } from "./links";
import { RunDeliveries } from "./run_deliveries";
import { runMetrics } from "./run_metrics";

const route = getRouteApi("/runs/$runId");

export function RunPage() {
  const { runId } = route.useParams();
  const run = useQuery({
    queryKey: ["run", runId],
    queryFn: ({ signal }) => get<Run>(apiPath("runs", runId), {}, signal),
    refetchInterval: ({ state }) => (state.data && isFinal(state.data.state) ? false : LIVE_INTERVAL_MS),
  });
  usePageTitle(runId, "Runs");
  if (!run.data && isNotFound(run.error)) {
    return (
      <NotFound name="Run">
        <Link to="/runs" className={linkClass}>
          Show all runs
        </Link>
      </NotFound>
    );
  }
  return (
    <>
      <PageHeader
        title={<span className="break-all">{runId}</span>}
        subtitle={run.data && <Status status={runStatus(run.data)} />}
        actions={run.data && !isFinal(run.data.state) && <CancelButton runId={runId} />}
      />
      <QueryResult query={run}>{(loaded) => <Content run={loaded} />}</QueryResult>
    </>
  );
}

function Content({ run }: { run: Run }) {
  return (
    <div className="space-y-4">
      {run.reason && (
        <p className="rounded-md border border-line bg-surface px-4 py-3">
          <span className="font-medium">{run.skipped ? "Skipped: " : "Reason: "}</span>
          {run.reason}
        </p>
      )}
      <Panel title="Lifecycle">
        <LifecycleSteps run={run} />
      </Panel>
      <div className="grid grid-cols-1 gap-4 lg:grid-cols-2">
        <RunDetails run={run} />
        <MetricsPanel run={run} />
      </div>
      {run.violations.length > 0 && <Violations run={run} />}
      {run.actions.length > 0 && <Actions run={run} />}
      <EventPanel of="runs" id={run.run_id} refetchInterval={isFinal(run.state) ? false : LIVE_INTERVAL_MS} />
      <RunDeliveries run={run} />
    </div>
  );
}

function RunDetails({ run }: { run: Run }) {
  const { workflow_id: workflowId } = run;
  return (
    <Panel title="Details">
      <DetailList>
        <Detail name="Workflow">
          <WorkflowLink workflowId={workflowId} version={run.version} />
        </Detail>
        <Detail name="Job">
          {run.job_id ? <JobLink jobId={run.job_id} copy /> : <span className="text-muted">None</span>}
        </Detail>
        <Detail name="Slot">
          <Timestamp at={run.scheduled_at} />
        </Detail>
        <Detail name="Started by">
          {run.origin === "schedule" ? (
            <Link to="/schedules/$workflowId" params={{ workflowId }} className={linkClass}>
              Schedule
            </Link>
          ) : (
            statusText(run.origin)
          )}
        </Detail>
        {run.catch_up && <Detail name="Slot made up">Yes</Detail>}
        <Detail name="Attempt">{run.attempt + 1}</Detail>
        <Detail name="Created">
          <Timestamp at={run.created_at} />
        </Detail>
        <Detail name="Ended">
          <Timestamp at={run.completed_at} />
        </Detail>
        <Detail name="Runs">
          <Link to="/runs" search={{ workflow: workflowId }} className={linkClass}>
            All runs
          </Link>
        </Detail>
      </DetailList>
    </Panel>
  );
}

function MetricsPanel({ run }: { run: Run }) {
  const metrics = runMetrics(run.metrics);
  return (
    <Panel title="Metrics">
      {metrics.length === 0 ? (
        <p className="px-4 py-3 text-muted">No metrics</p>
      ) : (
        <DetailList>
          {metrics.map(([name, value]) => (
            <Detail key={name} name={name}>
              <span className="tabular-nums">{value}</span>
            </Detail>
          ))}
        </DetailList>
      )}
    </Panel>
  );
}

function Violations({ run }: { run: Run }) {
  return (
    <Panel title="Violations">
      <Table label="Violations" columns={[{ name: "Constraint" }, { name: "Message" }, { name: "Time" }]}>
        {run.violations.map((violation) => (
          <tr key={`${violation.constraint} ${violation.at}`}>
            <RowHeader className="font-mono text-xs">{violation.constraint}</RowHeader>
            <Cell>{violation.message}</Cell>
            <Cell>
              <Timestamp at={violation.at} />
            </Cell>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}

function Actions({ run }: { run: Run }) {
  return (
    <Panel title="Actions">
      <Table label="Actions" columns={[{ name: "Action" }, { name: "Job" }, { name: "Error" }, { name: "Time" }]}>
        {run.actions.map((action) => (
          <tr key={`${action.on} ${action.at}`}>
            <RowHeader className="font-mono text-xs">
              {action.on}: {action.action}
            </RowHeader>
            <Cell>{action.job_id && <JobLink jobId={action.job_id} />}</Cell>
            <Cell className="text-failed">{action.error}</Cell>
            <Cell>
              <Timestamp at={action.at} />
            </Cell>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}

function CancelButton({ runId }: { runId: string }) {
  const [isOpen, setOpen] = useState(false);
  const [reason, setReason] = useState("");
  const queryClient = useQueryClient();
  const cancel = useMutation({
    mutationFn: () =>
      send<Run>("POST", apiPath("runs", runId, "cancel"), reason.trim() ? { reason: reason.trim() } : {}),
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ["run", runId] });
      setOpen(false);
    },
  });
  return (
    <>
      <Button variant="danger" onClick={() => setOpen(true)}>
        Cancel
      </Button>
      {isOpen && (
        <Dialog title="Cancel run?" onClose={() => setOpen(false)}>
          <div className="space-y-4">
            <p className="text-muted">The run and its job stop. The schedule continues with the next slot.</p>
            <Field
              label="Reason (optional)"
              maxLength={1_000}
              className="w-full"
              value={reason}
              onChange={(event) => setReason(event.target.value)}
            />
            {cancel.error && <ErrorAlert error={cancel.error} />}
            <Button variant="danger" disabled={cancel.isPending} onClick={() => cancel.mutate()}>
              Cancel run
            </Button>
          </div>
        </Dialog>
      )}
    </>
  );
}
