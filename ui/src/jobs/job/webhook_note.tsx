// The note on a job that delivers a webhook, with a link to its latest delivery.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { apiPath, get } from "../../api/client";
import { LIVE_INTERVAL_MS } from "../../api/queries";
import type { Delivery, Page } from "../../api/types";
import { linkClass } from "../../components/controls";
import { isFinal } from "../job_status";

export function WebhookNote({ jobId, status }: { jobId: string; status: string }) {
  const deliveries = useQuery({
    // Loaded again when the job ends.
    queryKey: ["deliveries", "job", jobId, status],
    queryFn: ({ signal }) => get<Page<Delivery>>(apiPath("deliveries"), { job_id: jobId, limit: 1 }, signal),
    refetchInterval: isFinal(status) ? false : LIVE_INTERVAL_MS,
  });
  const latest = deliveries.data?.items[0];
  return (
    <p className="mt-1">
      This job delivers a webhook.{" "}
      {latest && (
        <Link to="/deliveries" search={{ delivery: latest.delivery_id }} className={linkClass}>
          Show delivery
        </Link>
      )}
    </p>
  );
}
