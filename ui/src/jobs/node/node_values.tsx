// The params and output of a node.

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { apiPath, get } from "../../api/client";
import { nodeQuery } from "../../api/queries";
import type { Json } from "../../api/types";
import { linkClass } from "../../components/controls";
import { CopyButton } from "../../components/copy_button";
import { JsonTree } from "../../components/json_tree";
import { QueryResult } from "../../components/query_result";
import { ScrollBox } from "../../components/scroll_box";
import { formatBytes } from "../../lib/format";
import type { NodeState } from "../model/state";
import { Section } from "./section";

interface Params {
  params: Json;
  /** Whether the templates are rendered. */
  rendered: boolean;
}

interface ValuesProps {
  jobId: string;
  nodeId: string;
  nodeState: NodeState;
}

export function NodeParams({ jobId, nodeId, nodeState, isLoop }: ValuesProps & { isLoop: boolean }) {
  const params = useQuery({
    queryKey: ["job", jobId, "params", nodeId, nodeState.status === "pending", nodeState.attempt],
    queryFn: ({ signal }) => get<Params>(apiPath("jobs", jobId, "nodes", nodeId, "params"), {}, signal),
    placeholderData: keepPreviousData,
  });
  return (
    <Section title="Params" actions={params.data && <CopyJson value={params.data.params} />}>
      <QueryResult query={params}>
        {({ params, rendered }) => (
          <>
            {!rendered && (
              <p className="mb-1 text-xs text-muted">
                {isLoop ? "Templates, rendered for each iteration" : "Templates, not rendered yet"}
              </p>
            )}
            <JsonBox label="Params" value={params} />
          </>
        )}
      </QueryResult>
    </Section>
  );
}

export function NodeOutput({ jobId, nodeId, nodeState, latest }: ValuesProps & { latest: NodeState | undefined }) {
  const hasOutput = nodeState.status === "completed";
  // The node ran again later and replaced its output.
  const isReplaced = hasOutput && latest !== undefined && latest.endedAt !== nodeState.endedAt;
  const query = nodeQuery(jobId, nodeId);
  const node = useQuery({
    ...query,
    queryKey: [...query.queryKey, nodeState.endedAt ?? ""],
    enabled: hasOutput && !isReplaced,
  });
  if (!hasOutput) {
    return null;
  }
  if (isReplaced) {
    return (
      <Section title="Output">
        <p className="text-muted">The output was replaced when the node ran again.</p>
      </Section>
    );
  }
  return (
    <Section
      title="Output"
      actions={
        <span className="flex items-center gap-1 text-xs">
          {node.data && <CopyJson value={node.data.output} />}
          <a
            className={linkClass}
            href={apiPath("jobs", jobId, "nodes", nodeId, "output")}
            target="_blank"
            rel="noreferrer"
          >
            Full output
          </a>
        </span>
      }
    >
      <QueryResult query={node}>{({ output }) => <ValueView label="Output" value={output} />}</QueryResult>
    </Section>
  );
}

/** A JSON value, or a message if the server omitted it. */
export function ValueView({ label, value }: { label: string; value: Json }) {
  if (value !== null && typeof value === "object" && !Array.isArray(value)) {
    if (value._truncated === true) {
      return <p className="text-muted">Too large to show: {formatBytes(Number(value._size))}</p>;
    }
    if (value._missing === true || value._unavailable === true) {
      return <p className="text-muted">{value._missing ? "Artifact not found" : "Artifact store unavailable"}</p>;
    }
  }
  return <JsonBox label={label} value={value} />;
}

function JsonBox({ label, value }: { label: string; value: Json }) {
  return (
    <ScrollBox label={label} className="max-h-80 overflow-auto rounded-md border border-line bg-paper p-2">
      <JsonTree value={value} />
    </ScrollBox>
  );
}

function CopyJson({ value }: { value: Json }) {
  return <CopyButton text={() => JSON.stringify(value, null, 2)}>Copy</CopyButton>;
}
