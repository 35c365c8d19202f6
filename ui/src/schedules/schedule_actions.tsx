// What can be done with a schedule: pause, resume, trigger and, where asked for, backfill.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { at, send } from "../api/client";
import type { Schedule } from "../api/types";
import { Button } from "../components/controls";
import { Dialog } from "../components/dialog";
import { ProblemBox } from "../components/query_result";
import { BackfillDialog } from "./backfill_dialog";
import { TriggerDialog } from "./trigger_dialog";

export function Steering({ schedule, whole = false }: { schedule: Schedule; whole?: boolean }) {
  const { workflow_id: workflowId, paused } = schedule;
  const [open, setOpen] = useState<"trigger" | "backfill" | null>(null);
  const queries = useQueryClient();
  const pausing = useMutation({
    mutationFn: () => send<Schedule>("POST", at("schedules", workflowId, paused ? "resume" : "pause")),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["schedules"] }),
  });
  const close = () => setOpen(null);
  return (
    <span className="inline-flex flex-wrap gap-1.5">
      <Button
        disabled={pausing.isPending}
        aria-label={`${paused ? "Resume" : "Pause"} ${workflowId}`}
        onClick={() => pausing.mutate()}
      >
        {paused ? "Resume" : "Pause"}
      </Button>
      {whole && <Button onClick={() => setOpen("backfill")}>Backfill</Button>}
      <Button look={whole ? "main" : "plain"} aria-label={`Trigger ${workflowId}`} onClick={() => setOpen("trigger")}>
        Trigger
      </Button>
      {open === "trigger" && <TriggerDialog schedule={schedule} onClose={close} />}
      {open === "backfill" && <BackfillDialog schedule={schedule} onClose={close} />}
      {pausing.error && (
        <Dialog title="That did not work" onClose={() => pausing.reset()}>
          <ProblemBox error={pausing.error} />
        </Dialog>
      )}
    </span>
  );
}
