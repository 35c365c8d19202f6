// Bulk actions on the selected jobs, with progress and failures.

import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { apiPath, send } from "../../api/client";
import type { Job } from "../../api/types";
import { Button } from "../../components/controls";
import { pluralize } from "../../lib/format";
import { isFinal, isRetryable } from "../job_status";
import { shortId } from "../links";
import { type Failure, sendAll } from "./bulk_requests";

interface BulkAction {
  name: string;
  total: number;
  done: number;
  /** Null while requests are sent. */
  failures: Failure<Job>[] | null;
}

export function BulkBar({ selected, onClear }: { selected: Job[]; onClear(): void }) {
  const [action, setAction] = useState<BulkAction | null>(null);
  const queryClient = useQueryClient();
  const start = async (name: string, endpoint: string, jobs: Job[]) => {
    setAction({ name, total: jobs.length, done: 0, failures: null });
    const failures = await sendAll(
      jobs,
      (job) => send("POST", apiPath("jobs", job.job_id, endpoint)),
      (done) => setAction({ name, total: jobs.length, done, failures: null }),
    );
    setAction({ name, total: jobs.length, done: jobs.length, failures });
    onClear();
    await queryClient.invalidateQueries({ queryKey: ["jobs"] });
  };
  if (action) {
    return <Progress action={action} onClose={() => setAction(null)} />;
  }
  if (selected.length === 0) {
    return null;
  }
  const active = selected.filter((job) => !isFinal(job.status));
  const retryable = selected.filter((job) => isRetryable(job.status, job.failures));
  return (
    <div className={BAR_CLASS}>
      <span className="font-medium">{pluralize(selected.length, "job")} selected</span>
      <Button variant="danger" disabled={active.length === 0} onClick={() => void start("Cancel", "cancel", active)}>
        Cancel {active.length || ""}
      </Button>
      <Button disabled={retryable.length === 0} onClick={() => void start("Retry", "retry", retryable)}>
        Retry {retryable.length || ""}
      </Button>
      <Button variant="ghost" onClick={onClear}>
        Clear selection
      </Button>
    </div>
  );
}

const BAR_CLASS = "mb-3 flex flex-wrap items-center gap-2 rounded-lg border border-accent/40 bg-accent/5 px-3 py-2";

function Progress({ action, onClose }: { action: BulkAction; onClose(): void }) {
  const { name, total, done, failures } = action;
  return (
    <div className={BAR_CLASS} role="status">
      {failures === null ? (
        <>
          <span>
            {name}: {done} of {pluralize(total, "job")}
          </span>
          <progress max={total} value={done} aria-label={`${name}: progress`} className="h-2 accent-accent" />
        </>
      ) : (
        <>
          <span>
            {name}: {pluralize(total - failures.length, "job")}
            {failures.length > 0 && `, ${failures.length} failed`}
          </span>
          <Button variant="ghost" onClick={onClose}>
            Close
          </Button>
          {failures.length > 0 && (
            <ul className="w-full list-disc pl-5">
              {failures.map(({ item, reason }) => (
                <li key={item.job_id} className="break-words">
                  <code className="font-mono">{shortId(item.job_id)}</code> {reason}
                </li>
              ))}
            </ul>
          )}
        </>
      )}
    </div>
  );
}
