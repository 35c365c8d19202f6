import { expect, test } from "vitest";
import type { Delivery, Run } from "../api/types";
import { deliveriesOf } from "./deliveries";

const RUN = {
  job_id: "own",
  scheduled_at: "2026-05-01T00:00:00Z",
  transitions: [
    { state: "pre_run", at: "2026-04-30T00:00:00Z" },
    { state: "pending", at: "2026-05-01T00:00:00Z" },
  ],
  completed_at: "2026-05-01T00:10:00Z",
} as Run;

function delivery(jobId: string, nodeId: string, sentAt: string): Delivery {
  return { delivery_id: `${jobId}_${nodeId}`, job_id: jobId, node_id: nodeId, sent_at: sentAt } as Delivery;
}

test("a run has the deliveries of its job, and of hooks and actions during the run", () => {
  const own = deliveriesOf(RUN, [
    delivery("own", "notify", "2026-05-01T00:05:00Z"),
    delivery("call1", "deliver", "2026-05-01T00:10:20Z"),
    delivery("call0", "deliver", "2026-04-30T12:00:00Z"),
    delivery("call2", "deliver", "2026-05-01T00:12:00Z"),
    delivery("other", "notify", "2026-05-01T00:05:00Z"),
  ]);
  expect(own.map(({ job_id }) => job_id)).toEqual(["own", "call1"]);
});
