// One run: its way through its states, what did not hold, what was done, its figures, job and deliveries.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { at, get, send } from "../api/client";
import { LIVE_MS } from "../api/queries";
import type { Run } from "../api/types";
import { Button, Field, PageHead, Panel, textLink } from "../components/controls";
import { Fact, Facts } from "../components/details";
import { Dialog } from "../components/dialog";
import { Loaded, ProblemBox } from "../components/query_result";
import { Status } from "../components/status";
import { Cell, RowHead, Table } from "../components/table";
import { Moment } from "../components/time";
import { JobLink, WorkflowLink } from "../jobs/links";
import { isFinal } from "./lifecycle";
import { LifecyclePath } from "./lifecycle_steps";
import { runStatus } from "./links";
import { RunDeliveries } from "./run_deliveries";
import { figuresOf } from "./run_metrics";

const route = getRouteApi("/runs/$runId");

export function RunPage() {
  const { runId } = route.useParams();
  const run = useQuery({
    queryKey: ["run", runId],
    queryFn: ({ signal }) => get<Run>(at("runs", runId), {}, signal),
    refetchInterval: ({ state }) => (state.data && isFinal(state.data.state) ? false : LIVE_MS),
  });
  return (
    <>
      <PageHead
        title={<span className="break-all">{runId}</span>}
        about={run.data && <Status status={runStatus(run.data)} />}
        actions={run.data && !isFinal(run.data.state) && <CancelButton runId={runId} />}
      />
      <Loaded query={run}>{(found) => <Page run={found} />}</Loaded>
    </>
  );
}

function Page({ run }: { run: Run }) {
  return (
    <div className="space-y-4">
      {run.reason && (
        <p className="rounded-md border border-line bg-surface px-4 py-3">
          <span className="font-medium">{run.skipped ? "Skipped: " : "Why: "}</span>
          {run.reason}
        </p>
      )}
      <Panel title="Lifecycle">
        <LifecyclePath run={run} />
      </Panel>
      <div className="grid grid-cols-1 gap-4 lg:grid-cols-2">
        <RunFacts run={run} />
        <Figures run={run} />
      </div>
      {run.violations.length > 0 && <Violations run={run} />}
      <RunDeliveries run={run} />
    </div>
  );
}

function RunFacts({ run }: { run: Run }) {
  const { workflow_id: workflowId } = run;
  return (
    <Panel title="Facts">
      <Facts>
        <Fact name="Workflow">
          <WorkflowLink workflowId={workflowId} version={run.version} />
        </Fact>
        <Fact name="Job">
          {run.job_id ? <JobLink jobId={run.job_id} copy /> : <span className="text-muted">none</span>}
        </Fact>
        <Fact name="Slot">
          <Moment at={run.scheduled_at} />
        </Fact>
        <Fact name="Started by">
          {run.origin}
          {run.origin === "schedule" && (
            <>
              {" · "}
              <Link to="/schedules/$workflowId" params={{ workflowId }} className={textLink}>
                its schedule
              </Link>
            </>
          )}
        </Fact>
        <Fact name="Attempt">{run.attempt + 1}</Fact>
        <Fact name="Planned">
          <Moment at={run.created_at} />
        </Fact>
        <Fact name="Ended">
          <Moment at={run.completed_at} />
        </Fact>
        <Fact name="More">
          <Link to="/runs" search={{ workflow: workflowId }} className={textLink}>
            All runs of this workflow
          </Link>
        </Fact>
      </Facts>
    </Panel>
  );
}

function Figures({ run }: { run: Run }) {
  const figures = figuresOf(run.metrics);
  return (
    <Panel title="Figures">
      {figures.length === 0 ? (
        <p className="px-4 py-3 text-muted">They come when the run ends.</p>
      ) : (
        <Facts>
          {figures.map(([name, told]) => (
            <Fact key={name} name={name}>
              <span className="tabular-nums">{told}</span>
            </Fact>
          ))}
        </Facts>
      )}
    </Panel>
  );
}

function Violations({ run }: { run: Run }) {
  return (
    <Panel title="Constraints that did not hold">
      <Table label="Violations" columns={[{ name: "Constraint" }, { name: "Message" }, { name: "When" }]}>
        {run.violations.map((violation) => (
          <tr key={`${violation.constraint} ${violation.at}`}>
            <RowHead className="font-mono text-xs">{violation.constraint}</RowHead>
            <Cell>{violation.message}</Cell>
            <Cell>
              <Moment at={violation.at} />
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
  const queries = useQueryClient();
  const cancel = useMutation({
    mutationFn: () => send<Run>("POST", at("runs", runId, "cancel"), reason.trim() ? { reason: reason.trim() } : {}),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["run", runId] });
      setOpen(false);
    },
  });
  return (
    <>
      <Button look="danger" onClick={() => setOpen(true)}>
        Cancel
      </Button>
      {isOpen && (
        <Dialog title="Cancel this run" onClose={() => setOpen(false)}>
          <div className="space-y-4">
            <p className="text-muted">The run and its job stop. The schedule goes on with the next slot.</p>
            <Field
              label="Reason (optional)"
              maxLength={1_000}
              className="w-full"
              value={reason}
              onChange={(event) => setReason(event.target.value)}
            />
            {cancel.error && <ProblemBox error={cancel.error} />}
            <Button look="danger" disabled={cancel.isPending} onClick={() => cancel.mutate()}>
              Cancel the run
            </Button>
          </div>
        </Dialog>
      )}
    </>
  );
}
