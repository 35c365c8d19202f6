// The list of webhook deliveries, newest first.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { apiPath, get } from "../api/client";
import type { Delivery } from "../api/types";
import { Button, Code, EmptyState, LoadMore, linkClass, PageHeader, Panel, Select } from "../components/controls";
import { ErrorAlert, QueryResult } from "../components/query_result";
import { statusText } from "../components/status";
import { usePageTitle } from "../lib/page_title";
import { usePagedQuery } from "../lib/use_paged_query";
import { DeliveryDialog, DeliveryTable } from "./delivery_table";
import { RunsTabs } from "./runs_tabs";
import { DELIVERY_OUTCOMES, parseDeliveriesSearch } from "./search";
import { WorkflowFilter } from "./workflow_filter";

const PAGE_SIZE = 50;

const route = getRouteApi("/deliveries");

export function DeliveriesPage() {
  usePageTitle("Deliveries");
  const { workflow, outcome, delivery: openId } = route.useSearch();
  const navigate = route.useNavigate();
  const list = usePagedQuery<Delivery>(
    ["deliveries"],
    { workflow_id: workflow, outcome, limit: PAGE_SIZE },
    () => false,
  );
  const set = (change: Record<string, string | undefined>, replace = true) =>
    void navigate({ search: (before) => parseDeliveriesSearch({ ...before, ...change }), replace });
  const isFiltered = workflow !== undefined || outcome !== undefined;
  return (
    <>
      <PageHeader title="Deliveries" subtitle="Attempts to deliver webhooks" />
      <RunsTabs current="deliveries" />
      <search className="mb-3 flex flex-wrap items-center gap-2">
        <WorkflowFilter value={workflow} onChange={(id) => set({ workflow: id })} />
        <Select
          label="Status"
          hideLabel
          value={outcome ?? ""}
          options={[["", "Any status"], ...DELIVERY_OUTCOMES.map((known) => [known, statusText(known)] as const)]}
          onChange={(event) => set({ outcome: event.target.value })}
        />
        {isFiltered && (
          <Button variant="ghost" onClick={() => void navigate({ search: {} })}>
            Clear filters
          </Button>
        )}
      </search>
      {list.isRefetchError && <ErrorAlert error={list.error} title="Refresh failed" />}
      <Panel>
        <QueryResult query={list}>
          {(deliveries) =>
            deliveries.length > 0 ? (
              <DeliveryTable
                deliveries={deliveries}
                onOpen={({ delivery_id }) => set({ delivery: delivery_id }, false)}
              />
            ) : (
              <NoDeliveries isFiltered={isFiltered} />
            )
          }
        </QueryResult>
      </Panel>
      {list.hasNextPage && <LoadMore onClick={() => void list.fetchNextPage()} isBusy={list.isFetchingNextPage} />}
      {openId !== undefined && <OpenDelivery deliveryId={openId} onClose={() => set({ delivery: undefined })} />}
    </>
  );
}

function OpenDelivery({ deliveryId, onClose }: { deliveryId: string; onClose(): void }) {
  const delivery = useQuery({
    queryKey: ["deliveries", deliveryId],
    queryFn: ({ signal }) => get<Delivery>(apiPath("deliveries", deliveryId), {}, signal),
  });
  if (delivery.error) {
    return <ErrorAlert error={delivery.error} title="Loading failed" />;
  }
  return delivery.data ? <DeliveryDialog delivery={delivery.data} onClose={onClose} /> : null;
}

function NoDeliveries({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) {
    return (
      <EmptyState title="No matching deliveries">
        <Link to="/deliveries" className={linkClass}>
          Show all deliveries
        </Link>
      </EmptyState>
    );
  }
  return (
    <EmptyState title="No deliveries yet">
      <p>
        Nodes with <Code>handler: webhook</Code>, hooks and actions of runs send webhooks.
      </p>
    </EmptyState>
  );
}
