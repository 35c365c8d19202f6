// A table of webhook deliveries, and a dialog for one of them.

import type { ReactNode } from "react";
import type { Delivery } from "../api/types";
import { Button } from "../components/controls";
import { Detail, DetailList } from "../components/details";
import { Dialog } from "../components/dialog";
import { Status } from "../components/status";
import { Cell, type Column, Table } from "../components/table";
import { Timestamp } from "../components/time";
import { JobLink, WorkflowLink } from "../jobs/links";
import { formatDuration } from "../lib/format";
import { RedeliverButton } from "./redeliver_button";

const COLUMNS: Column[] = [
  { name: "Status" },
  { name: "Sent" },
  { name: "URL" },
  { name: "Response" },
  { name: "Attempt", right: true },
  { name: "Duration", right: true },
  { name: "Actions", isHidden: true },
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
            <Timestamp at={delivery.sent_at} />
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
            {formatDuration(delivery.duration_seconds)}
          </Cell>
          <Cell right>
            <span className="inline-flex items-center gap-1.5">
              <Button aria-label={`Show delivery ${delivery.delivery_id}`} onClick={() => onOpen(delivery)}>
                Show
              </Button>
              <RedeliverButton deliveryId={delivery.delivery_id} />
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
        <DetailList>
          <Detail name="Status">
            <Status status={delivery.outcome} />
          </Detail>
          <Detail name="URL">
            <span className="break-all">{delivery.url}</span>
          </Detail>
          <Detail name="HTTP status">{delivery.status ?? "None"}</Detail>
          <Detail name="Sent">
            <Timestamp at={delivery.sent_at} />
          </Detail>
          <Detail name="Duration">{formatDuration(delivery.duration_seconds)}</Detail>
          <Detail name="Attempt">{delivery.attempt}</Detail>
          <Detail name="Workflow">
            <WorkflowLink workflowId={delivery.workflow_id} />
          </Detail>
          <Detail name="Job">
            <JobLink jobId={delivery.job_id} copy /> <span className="text-muted">node {delivery.node_id}</span>
          </Detail>
          {delivery.error && <Detail name="Error">{delivery.error}</Detail>}
        </DetailList>
      </div>
      <h3 className="mb-1 font-medium">Response</h3>
      <Response>{delivery.response}</Response>
      <div className="mt-4">
        <RedeliverButton deliveryId={delivery.delivery_id} />
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
    <p className="text-muted">No response</p>
  );
}
