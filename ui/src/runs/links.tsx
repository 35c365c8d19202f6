// Links to runs.

import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Run } from "../api/types";

/** The status to display: the state of a run, which is completed for a skipped one. */
export function runStatus(run: Pick<Run, "state" | "skipped">): string {
  return run.skipped ? "completed_skipped" : run.state;
}

export function RunLink({
  run,
  className = "hover:underline",
  children,
}: {
  run: Run;
  className?: string;
  children: ReactNode;
}) {
  return (
    <Link to="/runs/$runId" params={{ runId: run.run_id }} title={run.run_id} className={className}>
      {children}
    </Link>
  );
}
