// Which version of a workflow is meant: a number or an alias, as the address says.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import type { Workflow } from "../api/types";
import { Choice } from "../components/controls";
import { versionsQuery } from "./queries";
import { workflowSearchOf } from "./search";

const route = getRouteApi("/workflows/$workflowId");

export function VersionChoice({ workflow, withAliases = false }: { workflow: Workflow; withAliases?: boolean }) {
  const { version = "" } = route.useSearch();
  const navigate = route.useNavigate();
  const versions = useQuery(versionsQuery(workflow.workflow_id));
  const numbers = versions.data?.map((one) => one.version) ?? [workflow.version];
  const aliases = withAliases ? namedAliases(workflow) : [];
  return (
    <Choice
      label="Version"
      hidden
      value={version}
      options={[
        ["", `Newest (${workflow.version})`],
        ...aliases.map(([alias, told]) => [alias, `${alias} (${told})`] as const),
        ...numbers.map((number) => [String(number), `Version ${number}`] as const),
      ]}
      onChange={(event) =>
        void navigate({
          search: (before) => workflowSearchOf({ ...before, version: event.target.value }),
          replace: true,
        })
      }
    />
  );
}

/** The aliases that somebody made, each with where it points. */
function namedAliases(workflow: Workflow): [string, string][] {
  return Object.entries(workflow.aliases ?? {})
    .filter(([alias]) => alias !== "latest")
    .map(([alias, targets]) => [alias, targets.map((target) => `${target.version}`).join(" or ")]);
}

/** The number of the version that is meant; of an alias that splits, the one with the largest share. */
export function numberOf(workflow: Workflow, version: string | undefined): number {
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
