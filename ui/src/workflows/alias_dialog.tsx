// Creates or changes an alias: one version, or a weighted split.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { apiPath, send } from "../api/client";
import type { Workflow } from "../api/types";
import { Button, Field, Select } from "../components/controls";
import { Dialog } from "../components/dialog";
import { ErrorAlert } from "../components/query_result";
import { versionsQuery } from "./queries";
import type { AliasTarget } from "./types";

// The limit of the server.
const TARGETS_MAX = 16;

interface Row {
  version: number;
  weight: string;
}

export function AliasDialog({
  workflow,
  alias,
  targets,
  onClose,
}: {
  workflow: Workflow;
  /** Empty for a new alias. */
  alias: string;
  targets: AliasTarget[];
  onClose(): void;
}) {
  const { workflow_id: workflowId } = workflow;
  const [name, setName] = useState(alias);
  const [rows, setRows] = useState<Row[]>(() =>
    targets.map((target) => ({ ...target, weight: String(target.weight) })),
  );
  const queryClient = useQueryClient();
  const save = useMutation({
    mutationFn: () => send("PUT", apiPath("workflows", workflowId, "aliases", name.trim()), toBody(rows)),
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ["workflow", workflowId] });
      onClose();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  return (
    <Dialog title={alias ? `Edit ${alias}` : "New alias"} onClose={onClose}>
      <form className="space-y-4" onSubmit={submit}>
        {!alias && (
          <Field
            label="Name"
            required
            pattern="[A-Za-z0-9_\-]{1,128}"
            title="Letters, digits, _ and -"
            placeholder="live"
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        )}
        <TargetRows workflowId={workflowId} latest={workflow.version} rows={rows} onChange={setRows} />
        {save.error && <ErrorAlert error={save.error} title="Saving failed" />}
        <Button type="submit" variant="primary" disabled={save.isPending}>
          {alias ? "Save" : "Create"}
        </Button>
      </form>
    </Dialog>
  );
}

function toBody(rows: Row[]): object {
  const [only] = rows;
  return rows.length === 1 && only
    ? { version: only.version }
    : { targets: rows.map((row) => ({ version: row.version, weight: Number(row.weight) })) };
}

interface TargetRowsProps {
  workflowId: string;
  latest: number;
  rows: Row[];
  onChange(rows: Row[]): void;
}

function TargetRows({ workflowId, latest, rows, onChange }: TargetRowsProps) {
  const versions = useQuery(versionsQuery(workflowId));
  const numbers = versions.data?.map(({ version }) => version) ?? [latest];
  const unused = numbers.find((number) => !rows.some((row) => row.version === number));
  return (
    <div className="space-y-2">
      {rows.map((row, index) => (
        <div key={row.version} className="flex items-end gap-2">
          <Select
            label="Version"
            value={String(row.version)}
            options={numbers
              .filter((number) => number === row.version || !rows.some((other) => other.version === number))
              .map((number) => [String(number), `Version ${number}`] as const)}
            onChange={(event) => onChange(rows.with(index, { ...row, version: Number(event.target.value) }))}
          />
          {rows.length > 1 && (
            <>
              <Field
                label="Weight"
                type="number"
                required
                min={1}
                max={1_000_000}
                className="w-24"
                value={row.weight}
                onChange={(event) => onChange(rows.with(index, { ...row, weight: event.target.value }))}
              />
              <Button
                variant="ghost"
                aria-label={`Remove version ${row.version}`}
                onClick={() => onChange(rows.filter((other) => other.version !== row.version))}
              >
                ✕
              </Button>
            </>
          )}
        </div>
      ))}
      {unused !== undefined && rows.length < TARGETS_MAX && (
        <Button onClick={() => onChange([...rows, { version: unused, weight: "10" }])}>Add version</Button>
      )}
    </div>
  );
}
