// A version of a workflow at a glance: its graph, its facts, and a node's definition when one is picked.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { versionQuery } from "../api/queries";
import type { Json, Workflow } from "../api/types";
import { Button, Code, Panel, textLink } from "../components/controls";
import { Fact, Facts } from "../components/details";
import { JsonTree } from "../components/json_tree";
import { Loaded } from "../components/query_result";
import { Ago } from "../components/time";
import { plural } from "../lib/format";
import { DefinitionGraph } from "./definition_graph";
import { DeleteFold } from "./delete_section";
import { workflowSearchOf } from "./search";
import { numberOf, VersionChoice } from "./version_select";

const route = getRouteApi("/workflows/$workflowId");

export function OverviewTab({ workflow }: { workflow: Workflow }) {
  const { version } = route.useSearch();
  const number = numberOf(workflow, version);
  const other = useQuery({ ...versionQuery(workflow.workflow_id, number), enabled: number !== workflow.version });
  if (number === workflow.version) {
    return <Overview workflow={workflow} shown={workflow} />;
  }
  return <Loaded query={other}>{(shown) => <Overview workflow={workflow} shown={shown} />}</Loaded>;
}

function Overview({ workflow, shown }: { workflow: Workflow; shown: Workflow }) {
  const { node: nodeId = null } = route.useSearch();
  const navigate = route.useNavigate();
  const setNodeId = (node: string | null) =>
    void navigate({ search: (before) => workflowSearchOf({ ...before, node }), replace: true, resetScroll: false });
  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-[minmax(0,1fr)_22rem]">
      <Panel title={plural(shown.definition.nodes.length, "node")} actions={<VersionChoice workflow={workflow} />}>
        <DefinitionGraph
          key={shown.version}
          definition={shown.definition}
          label={`Graph of ${shown.workflow_id}, version ${shown.version}`}
          selected={nodeId}
          onSelect={setNodeId}
        />
      </Panel>
      <div className="space-y-4">
        {nodeId !== null && <NodePanel workflow={shown} nodeId={nodeId} onClose={() => setNodeId(null)} />}
        <FactsPanel workflow={workflow} shown={shown} />
        <InputPanel schema={shown.definition.input} />
        <DeleteFold workflowId={workflow.workflow_id} />
      </div>
    </div>
  );
}

function FactsPanel({ workflow, shown }: { workflow: Workflow; shown: Workflow }) {
  const { workflow_id: workflowId, definition } = shown;
  const aliases = Object.entries(workflow.aliases ?? {})
    .filter(([, targets]) => targets.some((target) => target.version === shown.version))
    .map(([alias]) => alias);
  const handlers = [...new Set(definition.nodes.map((node) => node.handler).filter(Boolean))];
  return (
    <Panel title="Facts">
      <Facts>
        <Fact name="Version">
          {shown.version} <span className="text-muted">of {workflow.version}</span>
        </Fact>
        <Fact name="Deployed">
          <Ago at={shown.created_at} />
        </Fact>
        {aliases.length > 0 && <Fact name="Aliases">{aliases.join(", ")}</Fact>}
        <Fact name="Handlers">{handlers.join(", ") || "none"}</Fact>
        {definition.schedule !== undefined && (
          <Fact name="Schedule">
            <Link to="/schedules/$workflowId" params={{ workflowId }} className={textLink}>
              When it fires
            </Link>
          </Fact>
        )}
        {HAS_RUNS.some((key) => definition[key] !== undefined) && (
          <Fact name="Runs">
            <Link to="/runs" search={{ workflow: workflowId }} className={textLink}>
              Its runs
            </Link>
          </Fact>
        )}
        {definition.hook !== undefined && (
          <Fact name="Webhook">
            <Code>POST /api/v1/hooks/{workflowId}</Code>
          </Fact>
        )}
        <Fact name="Digest">
          <span className="font-mono text-xs" title={shown.digest}>
            {shown.digest.slice(0, 12)}
          </span>
        </Fact>
      </Facts>
    </Panel>
  );
}

const HAS_RUNS = ["schedule", "constraints", "actions", "run_retry"];

function InputPanel({ schema }: { schema: { [key: string]: Json } | undefined }) {
  return (
    <Panel title="Input">
      <div className="px-4 py-3">
        {schema === undefined ? (
          <p className="text-muted">It takes any JSON object: no schema is declared.</p>
        ) : (
          <JsonTree value={schema} />
        )}
      </div>
    </Panel>
  );
}

function NodePanel({ workflow, nodeId, onClose }: { workflow: Workflow; nodeId: string; onClose(): void }) {
  const node = workflow.definition.nodes.find((one) => one.id === nodeId);
  if (node === undefined) {
    return null;
  }
  const { id, ...rest } = node;
  return (
    <Panel
      title={<span className="break-all">{id}</span>}
      actions={
        <Button look="quiet" aria-label={`Close node ${id}`} onClick={onClose}>
          ✕
        </Button>
      }
    >
      <div className="max-h-96 overflow-auto px-4 py-3">
        <JsonTree value={rest as Json} />
      </div>
    </Panel>
  );
}
