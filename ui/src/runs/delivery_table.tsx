// Deliveries of webhooks, every attempt a row; one of them whole in a dialog.

import type { ReactNode } from "react";
import type { Delivery } from "../api/types";
import { Button } from "../components/controls";
import { Fact, Facts } from "../components/details";
import { Dialog } from "../components/dialog";
import { Status } from "../components/status";
import { Cell, type Column, Table } from "../components/table";
import { Moment } from "../components/time";
import { JobLink, WorkflowLink } from "../jobs/links";
import { duration } from "../lib/format";
import { Redeliver } from "./redeliver_button";

const COLUMNS: Column[] = [
  { name: "Outcome" },
  { name: "Sent" },
  { name: "To" },
  { name: "Answer" },
  { name: "Attempt", right: true },
  { name: "Took", right: true },
  { name: "Actions", hidden: true },
];

export function DeliveryTable({ deliveries, onOpen }: { deliveries: Delivery[]; onOpen(delivery: Delivery): void }) {
  return (
    <Table label="Deliveries" columns={COLUMNS}>
      {deliveries.map((delivery) => (
        <tr key={delivery.delivery_id} className="hover:bg-sunken/50">
          <Cell>
            <Status status={delivery.outcome} />
          </Cell>
          <Cell>
            <Moment at={delivery.sent_at} />
          </Cell>
          <Cell className="min-w-48 max-w-80">
            <span className="block break-all">{delivery.url}</span>
            <span className="text-xs text-muted">
              {delivery.workflow_id}, node {delivery.node_id}
            </span>
          </Cell>
          <Cell className="max-w-72 truncate text-muted">
            {delivery.status ?? ""} {delivery.error ?? ""}
          </Cell>
          <Cell right>{delivery.attempt}</Cell>
          <Cell right className="whitespace-nowrap">
            {duration(delivery.duration_seconds)}
          </Cell>
          <Cell right>
            <span className="inline-flex items-center gap-1.5">
              <Button aria-label={`Show ${delivery.delivery_id}`} onClick={() => onOpen(delivery)}>
                Show
              </Button>
              <Redeliver deliveryId={delivery.delivery_id} />
            </span>
          </Cell>
        </tr>
      ))}
    </Table>
  );
}

export function DeliveryDialog({ delivery, onClose }: { delivery: Delivery; onClose(): void }) {
  return (
    <Dialog title="Delivery" onClose={onClose}>
      <div className="-mx-4 -mt-3">
        <Facts>
          <Fact name="Outcome">
            <Status status={delivery.outcome} />
          </Fact>
          <Fact name="To">
            <span className="break-all">{delivery.url}</span>
          </Fact>
          <Fact name="Status">{delivery.status ?? "no answer"}</Fact>
          <Fact name="Sent">
            <Moment at={delivery.sent_at} />, took {duration(delivery.duration_seconds)}
          </Fact>
          <Fact name="Attempt">{delivery.attempt}</Fact>
          <Fact name="Workflow">
            <WorkflowLink workflowId={delivery.workflow_id} />
          </Fact>
          <Fact name="Job">
            <JobLink jobId={delivery.job_id} copy /> <span className="text-muted">node {delivery.node_id}</span>
          </Fact>
          {delivery.error && <Fact name="Error">{delivery.error}</Fact>}
        </Facts>
      </div>
      <h3 className="mb-1 font-medium">Response</h3>
      <Response>{delivery.response}</Response>
      <div className="mt-4">
        <Redeliver deliveryId={delivery.delivery_id} />
      </div>
    </Dialog>
  );
}

function Response({ children }: { children: ReactNode }) {
  return children ? (
    <pre className="max-h-72 overflow-auto whitespace-pre-wrap break-all rounded-md bg-sunken p-3 font-mono text-xs">
      {children}
    </pre>
  ) : (
    <p className="text-muted">Nothing was answered.</p>
  );
}
