// A select of the version or alias of a workflow, kept in the URL.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import type { Workflow } from "../api/types";
import { Select } from "../components/controls";
import { versionsQuery } from "./queries";
import { parseWorkflowSearch } from "./search";

const LATEST = "latest";
const route = getRouteApi("/workflows/$workflowId");

export function VersionSelect({ workflow, withAliases = false }: { workflow: Workflow; withAliases?: boolean }) {
  const { version = "" } = route.useSearch();
  const navigate = route.useNavigate();
  const versions = useQuery(versionsQuery(workflow.workflow_id));
  const numbers = versions.data?.map(({ version }) => version) ?? [workflow.version];
  const standard = withAliases ? defaultAlias(workflow) : undefined;
  const all = withAliases ? customAliases(workflow) : [];
  const aliases = all.filter(([alias]) => alias !== standard);
  const latest = `Latest (${workflow.version})`;
  const unnamed: [string, string][] = [["", latest]];
  for (const [alias, targets] of all) {
    if (alias === standard) {
      unnamed.splice(0, 1, ["", `Default: ${alias} (${targets})`], [LATEST, latest]);
    }
  }
  return (
    <Select
      label="Version"
      hideLabel
      value={version}
      options={[
        ...unnamed,
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

/** The alias of submits that name no version, once it is set. */
export function defaultAlias(workflow: Workflow): string | undefined {
  const alias = workflow.definition.default_alias;
  return alias !== undefined && workflow.aliases?.[alias] ? alias : undefined;
}

/** The custom aliases with their target versions. */
function customAliases(workflow: Workflow): [string, string][] {
  return Object.entries(workflow.aliases ?? {})
    .filter(([alias]) => alias !== LATEST)
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
