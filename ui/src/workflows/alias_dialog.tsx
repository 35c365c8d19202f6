// Points an alias, new or old, at one version, or splits it by weights.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { at, send } from "../api/client";
import type { Workflow } from "../api/types";
import { Button, Choice, Field } from "../components/controls";
import { Dialog } from "../components/dialog";
import { ProblemBox } from "../components/query_result";
import { versionsQuery } from "./queries";
import type { AliasTarget } from "./types";

// What the server takes.
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
  /** Empty for a new one. */
  alias: string;
  targets: AliasTarget[];
  onClose(): void;
}) {
  const { workflow_id: workflowId } = workflow;
  const [name, setName] = useState(alias);
  const [rows, setRows] = useState<Row[]>(() => targets.map((one) => ({ ...one, weight: String(one.weight) })));
  const queries = useQueryClient();
  const moving = useMutation({
    mutationFn: () => send("PUT", at("workflows", workflowId, "aliases", name.trim()), bodyOf(rows)),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["workflow", workflowId] });
      onClose();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    moving.mutate();
  };
  return (
    <Dialog title={alias ? `Move ${alias}` : "New alias"} onClose={onClose}>
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
        <TargetRows workflowId={workflowId} newest={workflow.version} rows={rows} onChange={setRows} />
        {moving.error && <ProblemBox error={moving.error} title="The alias was not moved" />}
        <Button type="submit" look="main" disabled={moving.isPending}>
          {alias ? "Move" : "Create"}
        </Button>
      </form>
    </Dialog>
  );
}

function bodyOf(rows: Row[]): object {
  const [only] = rows;
  return rows.length === 1 && only
    ? { version: only.version }
    : { targets: rows.map((row) => ({ version: row.version, weight: Number(row.weight) })) };
}

interface TargetRowsProps {
  workflowId: string;
  newest: number;
  rows: Row[];
  onChange(rows: Row[]): void;
}

function TargetRows({ workflowId, newest, rows, onChange }: TargetRowsProps) {
  const versions = useQuery(versionsQuery(workflowId));
  const numbers = versions.data?.map((one) => one.version) ?? [newest];
  const free = numbers.find((number) => !rows.some((row) => row.version === number));
  return (
    <div className="space-y-2">
      {rows.map((row, place) => (
        <div key={row.version} className="flex items-end gap-2">
          <Choice
            label="Version"
            value={String(row.version)}
            options={numbers
              .filter((number) => number === row.version || !rows.some((other) => other.version === number))
              .map((number) => [String(number), `Version ${number}`] as const)}
            onChange={(event) => onChange(rows.with(place, { ...row, version: Number(event.target.value) }))}
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
                onChange={(event) => onChange(rows.with(place, { ...row, weight: event.target.value }))}
              />
              <Button
                look="quiet"
                aria-label={`Leave version ${row.version} out`}
                onClick={() => onChange(rows.filter((other) => other.version !== row.version))}
              >
                ✕
              </Button>
            </>
          )}
        </div>
      ))}
      {free !== undefined && rows.length < TARGETS_MAX && (
        <Button onClick={() => onChange([...rows, { version: free, weight: "10" }])}>Split with another version</Button>
      )}
    </div>
  );
}
