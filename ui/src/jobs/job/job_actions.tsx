// Actions of a job: cancel, retry, run again and compare.

import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useId, useState } from "react";
import { apiPath, send } from "../../api/client";
import type { Job, Json } from "../../api/types";
import { ButtonLink } from "../../components/button_link";
import { Button, Field } from "../../components/controls";
import { Dialog } from "../../components/dialog";
import { ErrorAlert } from "../../components/query_result";
import { parseJsonObject } from "../../lib/json_object";
import { isInternal } from "../internal_workflow";
import { isFinal, isRetryable } from "../job_status";

interface JobActionsProps {
  job: Job;
  status: string;
  failures: number;
  onResumed(): void;
}

export function JobActions({ job, status, failures, onResumed }: JobActionsProps) {
  const [open, setOpen] = useState<"cancel" | "run" | null>(null);
  const retry = useMutation({
    mutationFn: () => send("POST", apiPath("jobs", job.job_id, "retry")),
    onSuccess: onResumed,
  });
  return (
    <>
      {!isFinal(status) && (
        <Button variant="danger" onClick={() => setOpen("cancel")}>
          Cancel
        </Button>
      )}
      {isRetryable(status, failures) && (
        <Button variant="primary" disabled={retry.isPending} onClick={() => retry.mutate()}>
          {status === "cancelled" ? "Retry cancelled" : "Retry failed"}
        </Button>
      )}
      {!isInternal(job.workflow_id) && (
        <>
          <Button onClick={() => setOpen("run")}>Run again</Button>
          <ButtonLink to="/compare" search={{ left: job.job_id }}>
            Compare
          </ButtonLink>
        </>
      )}
      {retry.error && (
        <div className="w-full">
          <ErrorAlert error={retry.error} title="Retry failed" />
        </div>
      )}
      {open === "cancel" && <CancelDialog job={job} onClose={() => setOpen(null)} onDone={onResumed} />}
      {open === "run" && <RunAgainDialog job={job} onClose={() => setOpen(null)} />}
    </>
  );
}

function CancelDialog({ job, onClose, onDone }: { job: Job; onClose(): void; onDone(): void }) {
  const [reason, setReason] = useState("");
  const cancel = useMutation({
    mutationFn: () =>
      send("POST", apiPath("jobs", job.job_id, "cancel"), reason.trim() ? { reason: reason.trim() } : {}),
    onSuccess: () => {
      onClose();
      onDone();
    },
  });
  return (
    <Dialog title="Cancel job?" onClose={onClose}>
      <form
        className="space-y-4"
        onSubmit={(event) => {
          event.preventDefault();
          cancel.mutate();
        }}
      >
        <p>Unfinished nodes stop. Completed nodes keep their output, and the job can be retried.</p>
        <Field
          label="Reason (optional)"
          className="w-full"
          maxLength={1000}
          value={reason}
          onChange={(event) => setReason(event.target.value)}
        />
        {cancel.error && <ErrorAlert error={cancel.error} />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Keep running</Button>
          <Button type="submit" variant="danger" disabled={cancel.isPending}>
            Cancel job
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function RunAgainDialog({ job, onClose }: { job: Job; onClose(): void }) {
  const [text, setText] = useState(() => JSON.stringify(job.input_data ?? {}, null, 2));
  const id = useId();
  const navigate = useNavigate();
  const parsed = parseJsonObject(text);
  const error = "error" in parsed ? parsed.error : null;
  const run = useMutation({
    mutationFn: (input: { [key: string]: Json }) =>
      send<{ job_id: string }>("POST", apiPath("jobs"), {
        workflow_id: job.workflow_id,
        version: job.version,
        priority: job.priority,
        input_data: input,
      }),
    onSuccess: ({ job_id }) => {
      onClose();
      return navigate({ to: "/jobs/$jobId", params: { jobId: job_id } });
    },
  });
  return (
    <Dialog title={`Run ${job.workflow_id} again`} onClose={onClose}>
      <form
        className="space-y-3"
        onSubmit={(event) => {
          event.preventDefault();
          if ("value" in parsed) {
            run.mutate(parsed.value);
          }
        }}
      >
        <label htmlFor={id} className="block">
          Input (JSON), version {job.version}
        </label>
        <textarea
          id={id}
          rows={Math.min(20, text.split("\n").length + 2)}
          spellCheck={false}
          aria-invalid={error !== null}
          aria-describedby={`${id}-error`}
          className="w-full rounded-md border border-line bg-paper p-2 font-mono text-xs"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <p id={`${id}-error`} role="status" className="min-h-5 break-words text-failed">
          {error}
        </p>
        {run.error && <ErrorAlert error={run.error} title="Start failed" />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Close</Button>
          <Button type="submit" variant="primary" disabled={error !== null || run.isPending}>
            Run
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
