// The versions of a workflow, and a diff between two of them.

import { useQueries, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { documentQuery } from "../api/queries";
import type { Workflow } from "../api/types";
import { Button, linkClass, Panel, Select } from "../components/controls";
import { QueryResult } from "../components/query_result";
import { Cell, RowHeader, Table } from "../components/table";
import { RelativeTime } from "../components/time";
import { formatCount, pluralize } from "../lib/format";
import { countChanges, diffLines } from "./diff";
import { DiffView } from "./diff_view";
import { versionsQuery } from "./queries";
import { parseWorkflowSearch } from "./search";

const PAGE_SIZE = 10;

const route = getRouteApi("/workflows/$workflowId");

export function VersionsTab({ workflow }: { workflow: Workflow }) {
  const versions = useQuery({ ...versionsQuery(workflow.workflow_id), staleTime: 5_000 });
  return (
    <QueryResult query={versions}>
      {(loaded) => (
        <div className="space-y-4">
          <VersionTable workflow={workflow} versions={loaded} />
          {loaded.length > 1 && <DiffPanel workflow={workflow} versions={loaded} />}
        </div>
      )}
    </QueryResult>
  );
}

function VersionTable({ workflow, versions }: { workflow: Workflow; versions: Workflow[] }) {
  const [visibleCount, setVisibleCount] = useState(PAGE_SIZE);
  const { workflow_id: workflowId, aliases } = workflow;
  return (
    <Panel title={pluralize(versions.length, "version")}>
      <Table
        label="Versions"
        columns={[
          { name: "Version" },
          { name: "Deployed" },
          { name: "Aliases" },
          { name: "Digest" },
          { name: "Actions", isHidden: true },
        ]}
      >
        {versions.slice(0, visibleCount).map(({ version, created_at, digest }, index) => (
          <tr key={version}>
            <RowHeader className="tabular-nums">{version}</RowHeader>
            <Cell>
              <RelativeTime at={created_at} />
            </Cell>
            <Cell>
              {Object.entries(aliases ?? {})
                .filter(([, targets]) => targets.some((target) => target.version === version))
                .map(([alias]) => alias)
                .join(", ")}
            </Cell>
            <Cell className="font-mono text-xs text-muted">{digest.slice(0, 12)}</Cell>
            <Cell right>
              <VersionActions workflowId={workflowId} version={version} previous={versions[index + 1]?.version} />
            </Cell>
          </tr>
        ))}
      </Table>
      {versions.length > visibleCount && (
        <div className="border-t border-line p-2 text-center">
          <Button variant="ghost" onClick={() => setVisibleCount(visibleCount * 5)}>
            {formatCount(versions.length - visibleCount)} older
          </Button>
        </div>
      )}
    </Panel>
  );
}

function VersionActions({
  workflowId,
  version,
  previous,
}: {
  workflowId: string;
  version: number;
  previous: number | undefined;
}) {
  const to = { to: "/workflows/$workflowId", params: { workflowId } } as const;
  return (
    <span className="inline-flex gap-4 whitespace-nowrap">
      {previous !== undefined && (
        <Link
          {...to}
          search={{ tab: "versions", left: previous, right: version }}
          resetScroll={false}
          className={linkClass}
          aria-label={`Changes in version ${version}`}
        >
          Changes
        </Link>
      )}
      <Link
        {...to}
        search={{ version: String(version) }}
        className={linkClass}
        aria-label={`Graph of version ${version}`}
      >
        Graph
      </Link>
    </span>
  );
}

function DiffPanel({ workflow, versions }: { workflow: Workflow; versions: Workflow[] }) {
  const search = route.useSearch();
  const numbers = versions.map(({ version }) => version);
  const right = search.right ?? numbers[0] ?? workflow.version;
  const left = search.left ?? numbers[numbers.indexOf(right) + 1] ?? right;
  return (
    <Panel
      title="Changes"
      actions={
        <>
          <VersionSide name="left" label="Old version" numbers={numbers} value={left} other={right} />
          <span aria-hidden="true" className="text-muted">
            →
          </span>
          <VersionSide name="right" label="New version" numbers={numbers} value={right} other={left} />
        </>
      }
    >
      <Documents workflowId={workflow.workflow_id} left={left} right={right} />
    </Panel>
  );
}

interface SideProps {
  name: "left" | "right";
  label: string;
  numbers: number[];
  value: number;
  other: number;
}

function VersionSide({ name, label, numbers, value, other }: SideProps) {
  const navigate = route.useNavigate();
  const otherName = name === "left" ? "right" : "left";
  return (
    <Select
      label={label}
      hideLabel
      value={String(value)}
      options={numbers.map((number) => [String(number), `Version ${number}`] as const)}
      onChange={(event) =>
        void navigate({
          search: (before) => parseWorkflowSearch({ ...before, [otherName]: other, [name]: event.target.value }),
          replace: true,
          resetScroll: false,
        })
      }
    />
  );
}

function Documents({ workflowId, left, right }: { workflowId: string; left: number; right: number }) {
  const [before, after] = useQueries({
    queries: [documentQuery(workflowId, left), documentQuery(workflowId, right)],
  });
  const error = before.error ?? after.error;
  const data =
    before.data === undefined || after.data === undefined ? undefined : { before: before.data, after: after.data };
  return (
    <QueryResult query={{ data, error, isPending: data === undefined }}>
      {(texts) => <Diff key={`${left} ${right}`} {...texts} left={left} right={right} />}
    </QueryResult>
  );
}

function Diff({ before, after, left, right }: { before: string; after: string; left: number; right: number }) {
  const lines = useMemo(() => diffLines(before, after), [before, after]);
  const { added, removed } = countChanges(lines);
  if (added + removed === 0) {
    return <p className="px-4 py-6 text-muted">No changes</p>;
  }
  return (
    <>
      <p className="border-b border-line px-4 py-2 text-sm text-muted">
        <span className="font-medium text-completed">+{formatCount(added)}</span>{" "}
        <span className="font-medium text-failed">−{formatCount(removed)}</span> lines
      </p>
      <DiffView lines={lines} leftName={`Version ${left}`} rightName={`Version ${right}`} />
    </>
  );
}
