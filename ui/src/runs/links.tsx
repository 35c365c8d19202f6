// Runs by name, and the way to their pages.

import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Run } from "../api/types";

/** A run that was skipped is completed, but not as the others are. */
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
