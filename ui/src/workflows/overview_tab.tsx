// A version of a workflow: graph, details, input schema, and the selected node.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { versionQuery } from "../api/queries";
import type { Json, Workflow } from "../api/types";
import { Button, Code, linkClass, Panel } from "../components/controls";
import { Detail, DetailList } from "../components/details";
import { JsonTree } from "../components/json_tree";
import { QueryResult } from "../components/query_result";
import { RelativeTime } from "../components/time";
import { pluralize } from "../lib/format";
import { DefinitionGraph } from "./definition_graph";
import { DeleteSection } from "./delete_section";
import { parseWorkflowSearch } from "./search";
import { VersionSelect, versionNumber } from "./version_select";

const route = getRouteApi("/workflows/$workflowId");

export function OverviewTab({ workflow }: { workflow: Workflow }) {
  const { version } = route.useSearch();
  const number = versionNumber(workflow, version);
  const other = useQuery({ ...versionQuery(workflow.workflow_id, number), enabled: number !== workflow.version });
  if (number === workflow.version) {
    return <Overview workflow={workflow} version={workflow} />;
  }
  return <QueryResult query={other}>{(loaded) => <Overview workflow={workflow} version={loaded} />}</QueryResult>;
}

function Overview({ workflow, version }: { workflow: Workflow; version: Workflow }) {
  const { node: nodeId = null } = route.useSearch();
  const navigate = route.useNavigate();
  const setNodeId = (node: string | null) =>
    void navigate({ search: (before) => parseWorkflowSearch({ ...before, node }), replace: true, resetScroll: false });
  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-[minmax(0,1fr)_22rem]">
      <Panel title={pluralize(version.definition.nodes.length, "node")} actions={<VersionSelect workflow={workflow} />}>
        <DefinitionGraph
          key={version.version}
          definition={version.definition}
          label={`Graph of ${version.workflow_id}, version ${version.version}`}
          selected={nodeId}
          onSelect={setNodeId}
        />
      </Panel>
      <div className="space-y-4">
        {nodeId !== null && <NodePanel workflow={version} nodeId={nodeId} onClose={() => setNodeId(null)} />}
        <DetailsPanel workflow={workflow} version={version} />
        <InputPanel schema={version.definition.input} />
        <DeleteSection workflowId={workflow.workflow_id} />
      </div>
    </div>
  );
}

function DetailsPanel({ workflow, version }: { workflow: Workflow; version: Workflow }) {
  const { workflow_id: workflowId, definition } = version;
  const aliases = Object.entries(workflow.aliases ?? {})
    .filter(([, targets]) => targets.some((target) => target.version === version.version))
    .map(([alias]) => alias);
  const handlers = [...new Set(definition.nodes.map((node) => node.handler).filter(Boolean))];
  return (
    <Panel title="Details">
      <DetailList>
        <Detail name="Version">
          {version.version} <span className="text-muted">of {workflow.version}</span>
        </Detail>
        <Detail name="Deployed">
          <RelativeTime at={version.created_at} />
        </Detail>
        {aliases.length > 0 && <Detail name="Aliases">{aliases.join(", ")}</Detail>}
        <Detail name="Handlers">{handlers.join(", ") || "None"}</Detail>
        {definition.schedule !== undefined && (
          <Detail name="Schedule">
            <Link to="/schedules/$workflowId" params={{ workflowId }} className={linkClass}>
              Show schedule
            </Link>
          </Detail>
        )}
        {RUN_KEYS.some((key) => definition[key] !== undefined) && (
          <Detail name="Runs">
            <Link to="/runs" search={{ workflow: workflowId }} className={linkClass}>
              Show runs
            </Link>
          </Detail>
        )}
        {definition.hook !== undefined && (
          <Detail name="Webhook">
            <Code>POST /api/v1/hooks/{workflowId}</Code>
          </Detail>
        )}
        <Detail name="Digest">
          <span className="font-mono text-xs" title={version.digest}>
            {version.digest.slice(0, 12)}
          </span>
        </Detail>
      </DetailList>
    </Panel>
  );
}

const RUN_KEYS = ["schedule", "constraints", "actions", "run_retry"];

function InputPanel({ schema }: { schema: { [key: string]: Json } | undefined }) {
  return (
    <Panel title="Input">
      <div className="px-4 py-3">
        {schema === undefined ? <p className="text-muted">No schema: any JSON object</p> : <JsonTree value={schema} />}
      </div>
    </Panel>
  );
}

function NodePanel({ workflow, nodeId, onClose }: { workflow: Workflow; nodeId: string; onClose(): void }) {
  const node = workflow.definition.nodes.find(({ id }) => id === nodeId);
  if (node === undefined) {
    return null;
  }
  const { id, ...rest } = node;
  return (
    <Panel
      title={<span className="break-all">{id}</span>}
      actions={
        <Button variant="ghost" aria-label={`Close node ${id}`} onClick={onClose}>
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
