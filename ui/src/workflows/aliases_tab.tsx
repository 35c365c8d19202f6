// The aliases of a workflow: names for a version or a weighted split of versions.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { apiPath, send } from "../api/client";
import type { Workflow } from "../api/types";
import { Button, Panel } from "../components/controls";
import { Dialog } from "../components/dialog";
import { ErrorAlert } from "../components/query_result";
import { Cell, RowHeader, Table } from "../components/table";
import { AliasDialog } from "./alias_dialog";
import type { AliasTarget } from "./types";

const LATEST = "latest";

type Open = { kind: "edit"; alias: string; targets: AliasTarget[] } | { kind: "delete"; alias: string } | null;

export function AliasesTab({ workflow }: { workflow: Workflow }) {
  const [open, setOpen] = useState<Open>(null);
  const aliases = Object.entries(workflow.aliases ?? {}) as [string, AliasTarget[]][];
  const createAlias = () => setOpen({ kind: "edit", alias: "", targets: [{ version: workflow.version, weight: 100 }] });
  return (
    <Panel title="Aliases" actions={<Button onClick={createAlias}>New alias</Button>} className="max-w-4xl">
      <Table label="Aliases" columns={[{ name: "Alias" }, { name: "Version" }, { name: "Actions", isHidden: true }]}>
        {aliases.map(([alias, targets]) => (
          <tr key={alias}>
            <RowHeader>
              {alias}
              {alias === workflow.definition.default_alias && <span className="ml-2 text-muted">Default</span>}
            </RowHeader>
            <Cell>
              <Targets targets={targets} />
            </Cell>
            <Cell right>
              {alias === LATEST ? (
                <span className="text-muted">Automatic</span>
              ) : (
                <span className="inline-flex gap-1">
                  <Button aria-label={`Edit ${alias}`} onClick={() => setOpen({ kind: "edit", alias, targets })}>
                    Edit
                  </Button>
                  <Button
                    variant="danger"
                    aria-label={`Delete ${alias}`}
                    onClick={() => setOpen({ kind: "delete", alias })}
                  >
                    Delete
                  </Button>
                </span>
              )}
            </Cell>
          </tr>
        ))}
      </Table>
      <p className="border-t border-line px-4 py-3 text-muted">
        Jobs can be submitted with an alias instead of a version. A split alias distributes jobs by weight.
      </p>
      {open?.kind === "edit" && <AliasDialog workflow={workflow} {...open} onClose={() => setOpen(null)} />}
      {open?.kind === "delete" && (
        <DeleteDialog workflowId={workflow.workflow_id} alias={open.alias} onClose={() => setOpen(null)} />
      )}
    </Panel>
  );
}

function Targets({ targets }: { targets: AliasTarget[] }) {
  const totalWeight = targets.reduce((sum, target) => sum + target.weight, 0);
  if (targets.length === 1) {
    return <span className="tabular-nums">Version {targets[0]?.version}</span>;
  }
  return (
    <ul className="max-w-72 space-y-1">
      {targets.map((target) => (
        <li key={target.version} className="grid grid-cols-[5.5rem_1fr_3rem] items-center gap-2 tabular-nums">
          <span className="whitespace-nowrap">Version {target.version}</span>
          <span className="h-2 overflow-hidden rounded-full bg-sunken">
            <span className="block h-full bg-accent" style={{ width: `${(100 * target.weight) / totalWeight}%` }} />
          </span>
          <span className="text-right">{Math.round((1000 * target.weight) / totalWeight) / 10} %</span>
        </li>
      ))}
    </ul>
  );
}

function DeleteDialog({ workflowId, alias, onClose }: { workflowId: string; alias: string; onClose(): void }) {
  const queryClient = useQueryClient();
  const deletion = useMutation({
    mutationFn: () => send("DELETE", apiPath("workflows", workflowId, "aliases", alias)),
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ["workflow", workflowId] });
      onClose();
    },
  });
  return (
    <Dialog title={`Delete ${alias}?`} onClose={onClose}>
      <div className="space-y-4">
        <p>Jobs can no longer be submitted with this alias.</p>
        {deletion.error && <ErrorAlert error={deletion.error} />}
        <Button variant="danger" disabled={deletion.isPending} onClick={() => deletion.mutate()}>
          Delete alias
        </Button>
      </div>
    </Dialog>
  );
}
