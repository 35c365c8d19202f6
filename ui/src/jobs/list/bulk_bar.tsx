// What can be done to the jobs that are picked, how far it is, and what was refused.

import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { at, send } from "../../api/client";
import type { Job } from "../../api/types";
import { Button } from "../../components/controls";
import { plural } from "../../lib/format";
import { hasEnded, isRetryable } from "../job_status";
import { shortId } from "../links";
import { each, type Refused } from "./bulk_requests";

interface Work {
  doing: string;
  total: number;
  done: number;
  /** Null while it goes on. */
  refused: Refused<Job>[] | null;
}

export function BulkBar({ picked, onClear }: { picked: Job[]; onClear(): void }) {
  const [work, setWork] = useState<Work | null>(null);
  const queries = useQueryClient();
  const act = async (doing: string, call: string, jobs: Job[]) => {
    setWork({ doing, total: jobs.length, done: 0, refused: null });
    const refused = await each(
      jobs,
      (job) => send("POST", at("jobs", job.job_id, call)),
      (done) => setWork({ doing, total: jobs.length, done, refused: null }),
    );
    setWork({ doing, total: jobs.length, done: jobs.length, refused });
    onClear();
    await queries.invalidateQueries({ queryKey: ["jobs"] });
  };
  if (work) {
    return <Progress work={work} onClose={() => setWork(null)} />;
  }
  if (picked.length === 0) {
    return null;
  }
  const going = picked.filter((job) => !hasEnded(job.status));
  const broken = picked.filter((job) => isRetryable(job.status));
  return (
    <div className={BAR}>
      <span className="font-medium">{plural(picked.length, "job")} picked</span>
      <Button look="danger" disabled={going.length === 0} onClick={() => void act("Cancel", "cancel", going)}>
        Cancel {going.length || ""}
      </Button>
      <Button disabled={broken.length === 0} onClick={() => void act("Retry", "retry", broken)}>
        Retry {broken.length || ""}
      </Button>
      <Button look="quiet" onClick={onClear}>
        Pick none
      </Button>
    </div>
  );
}

const BAR = "mb-3 flex flex-wrap items-center gap-2 rounded-lg border border-accent/40 bg-accent/5 px-3 py-2";

function Progress({ work, onClose }: { work: Work; onClose(): void }) {
  const { doing, total, done, refused } = work;
  return (
    <div className={BAR} role="status">
      {refused === null ? (
        <>
          <span>
            {doing}: {done} of {plural(total, "job")}
          </span>
          <progress max={total} value={done} aria-label={`${doing}: jobs done`} className="h-2 accent-accent" />
        </>
      ) : (
        <>
          <span>
            {doing}: asked for {plural(total - refused.length, "job")}
            {refused.length > 0 && `, ${refused.length} refused`}
          </span>
          <Button look="quiet" onClick={onClose}>
            Close
          </Button>
          {refused.length > 0 && (
            <ul className="w-full list-disc pl-5">
              {refused.map(({ item, reason }) => (
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
