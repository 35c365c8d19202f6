// What a node was given and what it gave back.

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { at, get } from "../../api/client";
import { nodeQuery } from "../../api/queries";
import type { Json } from "../../api/types";
import { textLink } from "../../components/controls";
import { CopyButton } from "../../components/copy_button";
import { JsonTree } from "../../components/json_tree";
import { Loaded } from "../../components/query_result";
import { ScrollBox } from "../../components/scroll_box";
import { bytes } from "../../lib/format";
import type { NodeState } from "../model/state";
import { Section } from "./section";

interface Params {
  params: Json;
  /** Whether the templates in them could be filled in. */
  rendered: boolean;
}

interface ValuesProps {
  jobId: string;
  nodeId: string;
  shown: NodeState;
}

export function NodeParams({ jobId, nodeId, shown, isLoop }: ValuesProps & { isLoop: boolean }) {
  const params = useQuery({
    queryKey: ["job", jobId, "params", nodeId, shown.status === "pending", shown.attempt],
    queryFn: ({ signal }) => get<Params>(at("jobs", jobId, "nodes", nodeId, "params"), {}, signal),
    placeholderData: keepPreviousData,
  });
  return (
    <Section title="Params" actions={params.data && <CopyJson value={params.data.params} />}>
      <Loaded query={params}>
        {({ params, rendered }) => (
          <>
            {!rendered && (
              <p className="mb-1 text-xs text-muted">
                {isLoop ? "Templates, filled in for each item." : "Templates: what they read is not there yet."}
              </p>
            )}
            <Box label="Params" value={params} />
          </>
        )}
      </Loaded>
    </Section>
  );
}

export function NodeOutput({ jobId, nodeId, shown, latest }: ValuesProps & { latest: NodeState | undefined }) {
  const isThere = shown.status === "completed";
  // A later run of the node has put its own output in the place of this one.
  const isReplaced = isThere && latest !== undefined && latest.endedAt !== shown.endedAt;
  const query = nodeQuery(jobId, nodeId);
  const node = useQuery({
    ...query,
    queryKey: [...query.queryKey, shown.endedAt ?? ""],
    enabled: isThere && !isReplaced,
  });
  if (!isThere) {
    return null;
  }
  if (isReplaced) {
    return (
      <Section title="Output">
        <p className="text-muted">The output of that moment was replaced when the node ran again.</p>
      </Section>
    );
  }
  return (
    <Section
      title="Output"
      actions={
        <span className="flex items-center gap-1 text-xs">
          {node.data && <CopyJson value={node.data.output} />}
          <a className={textLink} href={at("jobs", jobId, "nodes", nodeId, "output")} target="_blank" rel="noreferrer">
            Whole output
          </a>
        </span>
      }
    >
      <Loaded query={node}>{({ output }) => <Value label="Output" value={output} />}</Loaded>
    </Section>
  );
}

/** A value, or what the server says of one that it does not show here. */
export function Value({ label, value }: { label: string; value: Json }) {
  if (value !== null && typeof value === "object" && !Array.isArray(value)) {
    if (value._truncated === true) {
      return <p className="text-muted">It has {bytes(Number(value._size))}: too large to show here.</p>;
    }
    if (value._missing === true || value._unavailable === true) {
      return <p className="text-muted">Its store {value._missing ? "does not have it any more" : "did not answer"}.</p>;
    }
  }
  return <Box label={label} value={value} />;
}

function Box({ label, value }: { label: string; value: Json }) {
  return (
    <ScrollBox label={label} className="max-h-80 overflow-auto rounded-md border border-line bg-paper p-2">
      <JsonTree value={value} />
    </ScrollBox>
  );
}

function CopyJson({ value }: { value: Json }) {
  return <CopyButton text={() => JSON.stringify(value, null, 2)}>Copy</CopyButton>;
}
