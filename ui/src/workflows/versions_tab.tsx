// The versions of a workflow, and a readable difference between any two.

import { useQueries, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { documentQuery } from "../api/queries";
import type { Workflow } from "../api/types";
import { Button, Choice, Panel, textLink } from "../components/controls";
import { Loaded } from "../components/query_result";
import { Cell, RowHead, Table } from "../components/table";
import { Ago } from "../components/time";
import { count, plural } from "../lib/format";
import { changeCounts, diffLines } from "./diff";
import { DiffView } from "./diff_view";
import { versionsQuery } from "./queries";
import { workflowSearchOf } from "./search";

const SHOWN_FIRST = 10;

const route = getRouteApi("/workflows/$workflowId");

export function VersionsTab({ workflow }: { workflow: Workflow }) {
  const versions = useQuery({ ...versionsQuery(workflow.workflow_id), staleTime: 5_000 });
  return (
    <Loaded query={versions}>
      {(found) => (
        <div className="space-y-4">
          <VersionTable workflow={workflow} versions={found} />
          {found.length > 1 && <Difference workflow={workflow} versions={found} />}
        </div>
      )}
    </Loaded>
  );
}

function VersionTable({ workflow, versions }: { workflow: Workflow; versions: Workflow[] }) {
  const [shown, setShown] = useState(SHOWN_FIRST);
  const { workflow_id: workflowId, aliases } = workflow;
  return (
    <Panel title={plural(versions.length, "version")}>
      <Table
        label="Versions"
        columns={[
          { name: "Version" },
          { name: "Deployed" },
          { name: "Aliases" },
          { name: "Digest" },
          { name: "Actions", hidden: true },
        ]}
      >
        {versions.slice(0, shown).map((one, place) => (
          <tr key={one.version}>
            <RowHead className="tabular-nums">{one.version}</RowHead>
            <Cell>
              <Ago at={one.created_at} />
            </Cell>
            <Cell>
              {Object.entries(aliases ?? {})
                .filter(([, targets]) => targets.some((target) => target.version === one.version))
                .map(([alias]) => alias)
                .join(", ")}
            </Cell>
            <Cell className="font-mono text-xs text-muted">{one.digest.slice(0, 12)}</Cell>
            <Cell right>
              <VersionActions workflowId={workflowId} version={one.version} before={versions[place + 1]?.version} />
            </Cell>
          </tr>
        ))}
      </Table>
      {versions.length > shown && (
        <div className="border-t border-line p-2 text-center">
          <Button look="quiet" onClick={() => setShown(shown * 5)}>
            {count(versions.length - shown)} older
          </Button>
        </div>
      )}
    </Panel>
  );
}

function VersionActions({
  workflowId,
  version,
  before,
}: {
  workflowId: string;
  version: number;
  before: number | undefined;
}) {
  const to = { to: "/workflows/$workflowId", params: { workflowId } } as const;
  return (
    <span className="inline-flex gap-4 whitespace-nowrap">
      {before !== undefined && (
        <Link
          {...to}
          search={{ tab: "versions", left: before, right: version }}
          resetScroll={false}
          className={textLink}
          aria-label={`What changed in version ${version}`}
        >
          What changed
        </Link>
      )}
      <Link
        {...to}
        search={{ version: String(version) }}
        className={textLink}
        aria-label={`Graph of version ${version}`}
      >
        Graph
      </Link>
    </span>
  );
}

function Difference({ workflow, versions }: { workflow: Workflow; versions: Workflow[] }) {
  const search = route.useSearch();
  const numbers = versions.map((one) => one.version);
  const right = search.right ?? numbers[0] ?? workflow.version;
  const left = search.left ?? numbers[numbers.indexOf(right) + 1] ?? right;
  return (
    <Panel
      title="Difference"
      actions={
        <>
          <Side name="left" label="Older side" numbers={numbers} value={left} other={right} />
          <span aria-hidden="true" className="text-muted">
            →
          </span>
          <Side name="right" label="Newer side" numbers={numbers} value={right} other={left} />
        </>
      }
    >
      <Compared workflowId={workflow.workflow_id} left={left} right={right} />
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

function Side({ name, label, numbers, value, other }: SideProps) {
  const navigate = route.useNavigate();
  const otherName = name === "left" ? "right" : "left";
  return (
    <Choice
      label={label}
      hidden
      value={String(value)}
      options={numbers.map((number) => [String(number), `Version ${number}`] as const)}
      onChange={(event) =>
        void navigate({
          search: (before) => workflowSearchOf({ ...before, [otherName]: other, [name]: event.target.value }),
          replace: true,
          resetScroll: false,
        })
      }
    />
  );
}

function Compared({ workflowId, left, right }: { workflowId: string; left: number; right: number }) {
  const [before, after] = useQueries({
    queries: [documentQuery(workflowId, left), documentQuery(workflowId, right)],
  });
  const error = before.error ?? after.error;
  const data =
    before.data === undefined || after.data === undefined ? undefined : { before: before.data, after: after.data };
  return (
    <Loaded query={{ data, error, isPending: data === undefined }}>
      {(texts) => <Changes key={`${left} ${right}`} {...texts} left={left} right={right} />}
    </Loaded>
  );
}

function Changes({ before, after, left, right }: { before: string; after: string; left: number; right: number }) {
  const lines = useMemo(() => diffLines(before, after), [before, after]);
  const { added, removed } = changeCounts(lines);
  if (added + removed === 0) {
    return <p className="px-4 py-6 text-muted">Both are the same.</p>;
  }
  return (
    <>
      <p className="border-b border-line px-4 py-2 text-sm text-muted">
        <span className="font-medium text-completed">+{count(added)}</span>{" "}
        <span className="font-medium text-failed">−{count(removed)}</span> lines
      </p>
      <DiffView lines={lines} leftName={`Version ${left}`} rightName={`Version ${right}`} />
    </>
  );
}
