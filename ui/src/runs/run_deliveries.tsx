// The webhook deliveries of a run.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { apiPath, get } from "../api/client";
import type { Delivery, Page, Run } from "../api/types";
import { linkClass, Panel } from "../components/controls";
import { QueryResult } from "../components/query_result";
import { deliveriesOf } from "./deliveries";
import { DeliveryDialog, DeliveryTable } from "./delivery_table";

const DELIVERIES_MAX = 100;
const REFRESH_MS = 10_000;

export function RunDeliveries({ run }: { run: Run }) {
  const [open, setOpen] = useState<Delivery | null>(null);
  const deliveries = useQuery({
    queryKey: ["deliveries", "run", run.workflow_id],
    queryFn: async ({ signal }) =>
      (
        await get<Page<Delivery>>(
          apiPath("deliveries"),
          { workflow_id: run.workflow_id, limit: DELIVERIES_MAX },
          signal,
        )
      ).items,
    refetchInterval: REFRESH_MS,
  });
  return (
    <Panel
      title="Deliveries"
      actions={
        <Link to="/deliveries" search={{ workflow: run.workflow_id }} className={linkClass}>
          All deliveries
        </Link>
      }
    >
      <QueryResult query={deliveries}>
        {(all) => {
          const own = deliveriesOf(run, all);
          return own.length > 0 ? (
            <DeliveryTable deliveries={own} onOpen={setOpen} />
          ) : (
            <p className="px-4 py-3 text-muted">No deliveries</p>
          );
        }}
      </QueryResult>
      {open && <DeliveryDialog delivery={open} onClose={() => setOpen(null)} />}
    </Panel>
  );
}
