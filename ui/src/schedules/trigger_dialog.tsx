// Starts a run now, with the schedule's own input or another.

import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useId, useState } from "react";
import { at, send } from "../api/client";
import type { Schedule } from "../api/types";
import { Button } from "../components/controls";
import { Dialog } from "../components/dialog";
import { ProblemBox } from "../components/query_result";
import { objectOf } from "../lib/json_object";

export function TriggerDialog({ schedule, onClose }: { schedule: Schedule; onClose(): void }) {
  const { workflow_id: workflowId } = schedule;
  const own = JSON.stringify(schedule.input_data, null, 2);
  const [text, setText] = useState(own);
  const [problem, setProblem] = useState<string | null>(null);
  const id = useId();
  const navigate = useNavigate();
  const trigger = useMutation({
    mutationFn: (body: object) => send<{ job_id: string }>("POST", at("schedules", workflowId, "trigger"), body),
    // The run around a job that somebody submits is named after both.
    onSuccess: ({ job_id }) => navigate({ to: "/runs/$runId", params: { runId: `${workflowId}:${job_id}` } }),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const input = objectOf(text);
    setProblem("problem" in input ? input.problem : null);
    if ("value" in input) {
      trigger.mutate(text === own ? {} : { input_data: input.value });
    }
  };
  return (
    <Dialog title={`Trigger ${workflowId}`} onClose={onClose}>
      <form className="space-y-4 text-left" onSubmit={submit}>
        <p className="text-muted">A run starts now, under the same constraints as any other. The schedule goes on.</p>
        <div>
          <label htmlFor={id} className="mb-1 block text-sm font-medium">
            Input <span className="font-normal text-muted">(that of the schedule, unless you change it)</span>
          </label>
          <textarea
            id={id}
            rows={6}
            spellCheck={false}
            aria-invalid={problem !== null}
            aria-describedby={problem === null ? undefined : `${id}-wrong`}
            className="w-full rounded-md border border-line bg-surface p-2.5 font-mono text-xs leading-5 aria-invalid:border-failed"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          {problem !== null && (
            <p id={`${id}-wrong`} className="text-xs font-medium text-failed">
              {problem}
            </p>
          )}
        </div>
        {trigger.error && <ProblemBox error={trigger.error} title="It was not triggered" />}
        <Button type="submit" look="main" disabled={trigger.isPending}>
          Trigger
        </Button>
      </form>
    </Dialog>
  );
}
