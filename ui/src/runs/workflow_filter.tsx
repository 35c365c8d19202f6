// A choice among the workflows there are.

import { useQuery } from "@tanstack/react-query";
import { workflowsQuery } from "../api/queries";
import { Choice } from "../components/controls";

const LISTED_MAX = 1_000;

export function WorkflowFilter({ value, onPick }: { value: string | undefined; onPick(workflow: string): void }) {
  const workflows = useQuery({ ...workflowsQuery({ limit: LISTED_MAX }), staleTime: 30_000 });
  const ids = workflows.data?.items.map((workflow) => workflow.workflow_id) ?? [];
  const choices = value && !ids.includes(value) ? [value, ...ids] : ids;
  return (
    <Choice
      label="Workflow"
      hidden
      className="max-w-56"
      value={value ?? ""}
      options={[["", "Any workflow"], ...choices.map((id) => [id, id] as const)]}
      onChange={(event) => onPick(event.target.value)}
    />
  );
}
