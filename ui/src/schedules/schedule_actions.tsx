// Actions of a schedule: pause, resume, trigger and backfill.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { apiPath, send } from "../api/client";
import type { Schedule } from "../api/types";
import { Button } from "../components/controls";
import { Dialog } from "../components/dialog";
import { ErrorAlert } from "../components/query_result";
import { BackfillDialog } from "./backfill_dialog";
import { TriggerDialog } from "./trigger_dialog";

export function ScheduleActions({ schedule, showBackfill = false }: { schedule: Schedule; showBackfill?: boolean }) {
  const { workflow_id: workflowId, paused } = schedule;
  const [open, setOpen] = useState<"trigger" | "backfill" | null>(null);
  const queryClient = useQueryClient();
  const togglePause = useMutation({
    mutationFn: () => send<Schedule>("POST", apiPath("schedules", workflowId, paused ? "resume" : "pause")),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: ["schedules"] }),
  });
  const close = () => setOpen(null);
  return (
    <span className="inline-flex flex-wrap gap-1.5">
      <Button
        disabled={togglePause.isPending}
        aria-label={`${paused ? "Resume" : "Pause"} ${workflowId}`}
        onClick={() => togglePause.mutate()}
      >
        {paused ? "Resume" : "Pause"}
      </Button>
      {showBackfill && <Button onClick={() => setOpen("backfill")}>Backfill</Button>}
      <Button
        variant={showBackfill ? "primary" : "default"}
        aria-label={`Trigger ${workflowId}`}
        onClick={() => setOpen("trigger")}
      >
        Trigger
      </Button>
      {open === "trigger" && <TriggerDialog schedule={schedule} onClose={close} />}
      {open === "backfill" && <BackfillDialog schedule={schedule} onClose={close} />}
      {togglePause.error && (
        <Dialog title={paused ? "Resume failed" : "Pause failed"} onClose={() => togglePause.reset()}>
          <ErrorAlert error={togglePause.error} />
        </Dialog>
      )}
    </span>
  );
}
