// The aliases of a workflow: names for versions, or for several that share the submits.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { at, send } from "../api/client";
import type { Workflow } from "../api/types";
import { Button, Panel } from "../components/controls";
import { Dialog } from "../components/dialog";
import { ProblemBox } from "../components/query_result";
import { Cell, RowHead, Table } from "../components/table";
import { AliasDialog } from "./alias_dialog";
import type { AliasTarget } from "./types";

const LATEST = "latest";

type Open = { kind: "edit"; alias: string; targets: AliasTarget[] } | { kind: "delete"; alias: string } | null;

export function AliasesTab({ workflow }: { workflow: Workflow }) {
  const [open, setOpen] = useState<Open>(null);
  const aliases = Object.entries(workflow.aliases ?? {}) as [string, AliasTarget[]][];
  const fresh = () => setOpen({ kind: "edit", alias: "", targets: [{ version: workflow.version, weight: 100 }] });
  return (
    <Panel title="Aliases" actions={<Button onClick={fresh}>New alias</Button>} className="max-w-4xl">
      <Table label="Aliases" columns={[{ name: "Alias" }, { name: "Points at" }, { name: "Actions", hidden: true }]}>
        {aliases.map(([alias, targets]) => (
          <tr key={alias}>
            <RowHead>{alias}</RowHead>
            <Cell>
              <Targets targets={targets} />
            </Cell>
            <Cell right>
              {alias === LATEST ? (
                <span className="text-muted">follows the newest by itself</span>
              ) : (
                <span className="inline-flex gap-1">
                  <Button aria-label={`Move ${alias}`} onClick={() => setOpen({ kind: "edit", alias, targets })}>
                    Move
                  </Button>
                  <Button
                    look="danger"
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
        A job may ask for an alias instead of a version. One that splits gives each version its share of the submits; a
        job stays on the version it got.
      </p>
      {open?.kind === "edit" && <AliasDialog workflow={workflow} {...open} onClose={() => setOpen(null)} />}
      {open?.kind === "delete" && (
        <DeleteDialog workflowId={workflow.workflow_id} alias={open.alias} onClose={() => setOpen(null)} />
      )}
    </Panel>
  );
}

function Targets({ targets }: { targets: AliasTarget[] }) {
  const whole = targets.reduce((sum, target) => sum + target.weight, 0);
  if (targets.length === 1) {
    return <span className="tabular-nums">Version {targets[0]?.version}</span>;
  }
  return (
    <ul className="max-w-72 space-y-1">
      {targets.map((target) => (
        <li key={target.version} className="grid grid-cols-[5.5rem_1fr_3rem] items-center gap-2 tabular-nums">
          <span className="whitespace-nowrap">Version {target.version}</span>
          <span className="h-2 overflow-hidden rounded-full bg-sunken">
            <span className="block h-full bg-accent" style={{ width: `${(100 * target.weight) / whole}%` }} />
          </span>
          <span className="text-right">{Math.round((1000 * target.weight) / whole) / 10} %</span>
        </li>
      ))}
    </ul>
  );
}

function DeleteDialog({ workflowId, alias, onClose }: { workflowId: string; alias: string; onClose(): void }) {
  const queries = useQueryClient();
  const deletion = useMutation({
    mutationFn: () => send("DELETE", at("workflows", workflowId, "aliases", alias)),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["workflow", workflowId] });
      onClose();
    },
  });
  return (
    <Dialog title={`Delete ${alias}`} onClose={onClose}>
      <div className="space-y-4">
        <p>Submits that ask for {alias} will be refused.</p>
        {deletion.error && <ProblemBox error={deletion.error} />}
        <Button look="danger" disabled={deletion.isPending} onClick={() => deletion.mutate()}>
          Delete the alias
        </Button>
      </div>
    </Dialog>
  );
}
