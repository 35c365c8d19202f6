// Every attempt to deliver a webhook, newest first.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { at, get } from "../api/client";
import type { Delivery } from "../api/types";
import { Button, Choice, Code, Empty, More, PageHead, Panel, textLink } from "../components/controls";
import { Loaded, ProblemBox } from "../components/query_result";
import { usePaged } from "../lib/use_paged_query";
import { DeliveryDialog, DeliveryTable } from "./delivery_table";
import { Places } from "./runs_tabs";
import { DELIVERY_OUTCOMES, deliveriesSearchOf } from "./search";
import { WorkflowFilter } from "./workflow_filter";

const PAGE_SIZE = 50;

const route = getRouteApi("/deliveries");

export function DeliveriesPage() {
  const { workflow, outcome, delivery: openId } = route.useSearch();
  const navigate = route.useNavigate();
  const list = usePaged<Delivery>(["deliveries"], { workflow_id: workflow, outcome, limit: PAGE_SIZE }, () => false);
  const set = (change: Record<string, string | undefined>, replace = true) =>
    void navigate({ search: (before) => deliveriesSearchOf({ ...before, ...change }), replace });
  const isFiltered = workflow !== undefined || outcome !== undefined;
  return (
    <>
      <PageHead title="Deliveries" about="Webhooks that were sent, every attempt." />
      <Places current="deliveries" />
      <search className="mb-3 flex flex-wrap items-center gap-2">
        <WorkflowFilter value={workflow} onPick={(id) => set({ workflow: id })} />
        <Choice
          label="Outcome"
          hidden
          value={outcome ?? ""}
          options={[["", "Any outcome"], ...DELIVERY_OUTCOMES.map((one) => [one, one] as const)]}
          onChange={(event) => set({ outcome: event.target.value })}
        />
        {isFiltered && (
          <Button look="quiet" onClick={() => void navigate({ search: {} })}>
            Clear
          </Button>
        )}
      </search>
      {list.isRefetchError && <ProblemBox error={list.error} title="The list may be out of date" />}
      <Panel>
        <Loaded query={list}>
          {(deliveries) =>
            deliveries.length > 0 ? (
              <DeliveryTable deliveries={deliveries} onOpen={(one) => set({ delivery: one.delivery_id }, false)} />
            ) : (
              <NoDeliveries isFiltered={isFiltered} />
            )
          }
        </Loaded>
      </Panel>
      {list.hasNextPage && <More onClick={() => void list.fetchNextPage()} busy={list.isFetchingNextPage} />}
      {openId !== undefined && <OpenDelivery deliveryId={openId} onClose={() => set({ delivery: undefined })} />}
    </>
  );
}

function OpenDelivery({ deliveryId, onClose }: { deliveryId: string; onClose(): void }) {
  const delivery = useQuery({
    queryKey: ["deliveries", deliveryId],
    queryFn: ({ signal }) => get<Delivery>(at("deliveries", deliveryId), {}, signal),
  });
  if (delivery.error) {
    return <ProblemBox error={delivery.error} title="This delivery can not be shown" />;
  }
  return delivery.data ? <DeliveryDialog delivery={delivery.data} onClose={onClose} /> : null;
}

function NoDeliveries({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) {
    return (
      <Empty title="No delivery fits these filters">
        <Link to="/deliveries" className={textLink}>
          Show all deliveries
        </Link>
      </Empty>
    );
  }
  return (
    <Empty title="No webhook was sent yet">
      <p>
        Nodes with <Code>handler: webhook</Code>, and hooks and actions of runs, send them.
      </p>
    </Empty>
  );
}
