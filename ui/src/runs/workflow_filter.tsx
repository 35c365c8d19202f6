// A select of all workflows.

import { useQuery } from "@tanstack/react-query";
import { workflowsQuery } from "../api/queries";
import { Select } from "../components/controls";

const WORKFLOWS_MAX = 1_000;

export function WorkflowFilter({ value, onChange }: { value: string | undefined; onChange(workflow: string): void }) {
  const workflows = useQuery({ ...workflowsQuery({ limit: WORKFLOWS_MAX }), staleTime: 30_000 });
  const ids = workflows.data?.items.map((workflow) => workflow.workflow_id) ?? [];
  const options = value && !ids.includes(value) ? [value, ...ids] : ids;
  return (
    <Select
      label="Workflow"
      hideLabel
      className="max-w-56"
      value={value ?? ""}
      options={[["", "Any workflow"], ...options.map((id) => [id, id] as const)]}
      onChange={(event) => onChange(event.target.value)}
    />
  );
}
