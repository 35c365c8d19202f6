// Starts a run now, with the input of the schedule or another.

import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useId, useState } from "react";
import { apiPath, send } from "../api/client";
import type { Schedule } from "../api/types";
import { Button } from "../components/controls";
import { Dialog } from "../components/dialog";
import { ErrorAlert } from "../components/query_result";
import { parseJsonObject } from "../lib/json_object";

export function TriggerDialog({ schedule, onClose }: { schedule: Schedule; onClose(): void }) {
  const { workflow_id: workflowId } = schedule;
  const scheduleInput = JSON.stringify(schedule.input_data, null, 2);
  const [text, setText] = useState(scheduleInput);
  const [inputError, setInputError] = useState<string | null>(null);
  const id = useId();
  const navigate = useNavigate();
  const trigger = useMutation({
    mutationFn: (body: object) => send<{ job_id: string }>("POST", apiPath("schedules", workflowId, "trigger"), body),
    // The id of a triggered run consists of the workflow and the job.
    onSuccess: ({ job_id }) => navigate({ to: "/runs/$runId", params: { runId: `${workflowId}:${job_id}` } }),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const input = parseJsonObject(text);
    setInputError("error" in input ? input.error : null);
    if ("value" in input) {
      trigger.mutate(text === scheduleInput ? {} : { input_data: input.value });
    }
  };
  return (
    <Dialog title={`Trigger ${workflowId}`} onClose={onClose}>
      <form className="space-y-4 text-left" onSubmit={submit}>
        <p className="text-muted">Starts a run now, under the same constraints. The schedule does not change.</p>
        <div>
          <label htmlFor={id} className="mb-1 block text-sm font-medium">
            Input (JSON)
          </label>
          <textarea
            id={id}
            rows={6}
            spellCheck={false}
            aria-invalid={inputError !== null}
            aria-describedby={inputError === null ? undefined : `${id}-error`}
            className="w-full rounded-md border border-line bg-surface p-2.5 font-mono text-xs leading-5 aria-invalid:border-failed"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          {inputError !== null && (
            <p id={`${id}-error`} className="text-xs font-medium text-failed">
              {inputError}
            </p>
          )}
        </div>
        {trigger.error && <ErrorAlert error={trigger.error} title="Trigger failed" />}
        <Button type="submit" variant="primary" disabled={trigger.isPending}>
          Trigger
        </Button>
      </form>
    </Dialog>
  );
}
