// What can be done with a job: stop it, run what failed again, run it again with another input, compare it.

import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useId, useState } from "react";
import { at, send } from "../../api/client";
import type { Job, Json } from "../../api/types";
import { ButtonLink } from "../../components/button_link";
import { Button, Field } from "../../components/controls";
import { Dialog } from "../../components/dialog";
import { ProblemBox } from "../../components/query_result";
import { objectOf } from "../../lib/json_object";
import { hasEnded, isRetryable } from "../job_status";

export function JobActions({ job, status, goOn }: { job: Job; status: string; goOn(): void }) {
  const [open, setOpen] = useState<"cancel" | "again" | null>(null);
  const retry = useMutation({
    mutationFn: () => send("POST", at("jobs", job.job_id, "retry")),
    onSuccess: goOn,
  });
  return (
    <>
      {!hasEnded(status) && (
        <Button look="danger" onClick={() => setOpen("cancel")}>
          Cancel
        </Button>
      )}
      {isRetryable(status) && (
        <Button look="main" disabled={retry.isPending} onClick={() => retry.mutate()}>
          {status === "cancelled" ? "Retry cancelled" : "Retry failed"}
        </Button>
      )}
      <Button onClick={() => setOpen("again")}>Run again</Button>
      <ButtonLink to="/compare" search={{ left: job.job_id }}>
        Compare
      </ButtonLink>
      {retry.error && (
        <div className="w-full">
          <ProblemBox error={retry.error} title="It was not retried" />
        </div>
      )}
      {open === "cancel" && <CancelDialog job={job} onClose={() => setOpen(null)} onDone={goOn} />}
      {open === "again" && <RunAgainDialog job={job} onClose={() => setOpen(null)} />}
    </>
  );
}

function CancelDialog({ job, onClose, onDone }: { job: Job; onClose(): void; onDone(): void }) {
  const [reason, setReason] = useState("");
  const cancel = useMutation({
    mutationFn: () => send("POST", at("jobs", job.job_id, "cancel"), reason.trim() ? { reason: reason.trim() } : {}),
    onSuccess: () => {
      onClose();
      onDone();
    },
  });
  return (
    <Dialog title="Cancel this job?" onClose={onClose}>
      <form
        className="space-y-4"
        onSubmit={(event) => {
          event.preventDefault();
          cancel.mutate();
        }}
      >
        <p>What has not ended stops; what completed keeps its output. It can be retried later.</p>
        <Field
          label="Reason (optional)"
          className="w-full"
          maxLength={1000}
          value={reason}
          onChange={(event) => setReason(event.target.value)}
        />
        {cancel.error && <ProblemBox error={cancel.error} />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Keep it running</Button>
          <Button type="submit" look="danger" disabled={cancel.isPending}>
            Cancel the job
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
  const read = objectOf(text);
  const problem = "problem" in read ? read.problem : null;
  const run = useMutation({
    mutationFn: (input: { [key: string]: Json }) =>
      send<{ job_id: string }>("POST", at("jobs"), {
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
          if ("value" in read) {
            run.mutate(read.value);
          }
        }}
      >
        <label htmlFor={id} className="block">
          Input of a new job of version {job.version}, as JSON
        </label>
        <textarea
          id={id}
          rows={Math.min(20, text.split("\n").length + 2)}
          spellCheck={false}
          aria-invalid={problem !== null}
          aria-describedby={`${id}-problem`}
          className="w-full rounded-md border border-line bg-paper p-2 font-mono text-xs"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <p id={`${id}-problem`} role="status" className="min-h-5 break-words text-failed">
          {problem}
        </p>
        {run.error && <ProblemBox error={run.error} title="It was not started" />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Close</Button>
          <Button type="submit" look="main" disabled={problem !== null || run.isPending}>
            Run
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
