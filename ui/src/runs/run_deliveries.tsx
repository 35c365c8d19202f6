// The webhooks of a run: those of its job's nodes, and those of its hooks and actions.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { at, get } from "../api/client";
import type { Delivery, Page, Run } from "../api/types";
import { Panel, textLink } from "../components/controls";
import { Loaded } from "../components/query_result";
import { deliveriesOf } from "./deliveries";
import { DeliveryDialog, DeliveryTable } from "./delivery_table";

const READ = 100;
const SEEN_AGAIN_MS = 10_000;

export function RunDeliveries({ run }: { run: Run }) {
  const [open, setOpen] = useState<Delivery | null>(null);
  const deliveries = useQuery({
    queryKey: ["deliveries", "run", run.workflow_id],
    queryFn: async ({ signal }) =>
      (await get<Page<Delivery>>(at("deliveries"), { workflow_id: run.workflow_id, limit: READ }, signal)).items,
    refetchInterval: SEEN_AGAIN_MS,
  });
  return (
    <Panel
      title="Deliveries"
      actions={
        <Link to="/deliveries" search={{ workflow: run.workflow_id }} className={textLink}>
          All of this workflow
        </Link>
      }
    >
      <Loaded query={deliveries}>
        {(all) => {
          const own = deliveriesOf(run, all);
          return own.length > 0 ? (
            <DeliveryTable deliveries={own} onOpen={setOpen} />
          ) : (
            <p className="px-4 py-3 text-muted">No webhook was sent while this run was under way.</p>
          );
        }}
      </Loaded>
      {open && <DeliveryDialog delivery={open} onClose={() => setOpen(null)} />}
    </Panel>
  );
}
