// The internal workflow that delivers the webhooks of runs. It has jobs, but no definition in the API.

import type { Definition } from "../api/types";

/** The only node of the internal workflow. */
export const WEBHOOK_NODE = "deliver";

export const WEBHOOK_DEFINITION: Definition = {
  workflow_id: "windlass.webhook",
  nodes: [{ id: WEBHOOK_NODE, handler: "webhook" }],
};

/** Whether a workflow is internal: ids of deployed workflows contain no dot. */
export function isInternal(workflowId: string): boolean {
  return workflowId.includes(".");
}
