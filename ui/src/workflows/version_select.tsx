// A select of the version or alias of a workflow, kept in the URL.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import type { Workflow } from "../api/types";
import { Select } from "../components/controls";
import { versionsQuery } from "./queries";
import { parseWorkflowSearch } from "./search";

const route = getRouteApi("/workflows/$workflowId");

export function VersionSelect({ workflow, withAliases = false }: { workflow: Workflow; withAliases?: boolean }) {
  const { version = "" } = route.useSearch();
  const navigate = route.useNavigate();
  const versions = useQuery(versionsQuery(workflow.workflow_id));
  const numbers = versions.data?.map(({ version }) => version) ?? [workflow.version];
  const aliases = withAliases ? customAliases(workflow) : [];
  return (
    <Select
      label="Version"
      hideLabel
      value={version}
      options={[
        ["", `Latest (${workflow.version})`],
        ...aliases.map(([alias, targets]) => [alias, `${alias} (${targets})`] as const),
        ...numbers.map((number) => [String(number), `Version ${number}`] as const),
      ]}
      onChange={(event) =>
        void navigate({
          search: (before) => parseWorkflowSearch({ ...before, version: event.target.value }),
          replace: true,
        })
      }
    />
  );
}

/** The custom aliases with their target versions. */
function customAliases(workflow: Workflow): [string, string][] {
  return Object.entries(workflow.aliases ?? {})
    .filter(([alias]) => alias !== "latest")
    .map(([alias, targets]) => [alias, targets.map((target) => `${target.version}`).join(" or ")]);
}

/** The number of a version or alias; for a split alias, the version with the largest weight. */
export function versionNumber(workflow: Workflow, version: string | undefined): number {
  if (version === undefined) {
    return workflow.version;
  }
  const targets = workflow.aliases?.[version];
  if (targets) {
    const [first] = [...targets].sort((a, b) => (b.weight ?? 0) - (a.weight ?? 0));
    return first?.version ?? workflow.version;
  }
  return /^[1-9]\d{0,8}$/.test(version) ? Number(version) : workflow.version;
}
