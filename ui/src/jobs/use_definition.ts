// The definition of the workflow of a job.

import { useQuery } from "@tanstack/react-query";
import { versionQuery } from "../api/queries";
import type { Definition, Job } from "../api/types";
import { isInternal, WEBHOOK_DEFINITION } from "./internal_workflow";

interface DefinitionResult {
  /** Undefined until the job and its definition are loaded. */
  definition: Definition | undefined;
  error: unknown;
}

export function useDefinition(job: Job | undefined): DefinitionResult {
  const { workflow_id: workflowId = "", version = 0 } = job ?? {};
  const hasInternalWorkflow = isInternal(workflowId);
  const workflow = useQuery({
    ...versionQuery(workflowId, version),
    enabled: job !== undefined && !hasInternalWorkflow,
  });
  if (hasInternalWorkflow) {
    return { definition: WEBHOOK_DEFINITION, error: null };
  }
  return { definition: workflow.data?.definition, error: workflow.error };
}
