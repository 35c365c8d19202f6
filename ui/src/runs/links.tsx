// Links to runs.

import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Run } from "../api/types";

/** The status to display: a skipped run has the state completed. */
export function runStatus(run: Pick<Run, "state" | "skipped">): string {
  return run.skipped ? "skipped" : run.state;
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
