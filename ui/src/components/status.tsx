// Status icons and labels. Each status has a text and a shape, so that color is never the only difference.

import type { ReactNode } from "react";
import type { JobStatus, NodeStatus } from "../api/types";

export type Tone = "pending" | "ready" | "running" | "waiting" | "completed" | "failed" | "skipped" | "cancelled";

/** The color tone of a status of a job, node, run, delivery or worker. */
export function toneOf(status: string): Tone {
  return TONES[status] ?? "pending";
}

const TONES: Record<JobStatus | NodeStatus, Tone> & Record<string, Tone> = {
  pending: "pending",
  pre_run: "pending",
  ready: "ready",
  dispatched: "ready",
  container_creating: "ready",
  running: "running",
  condition_running: "running",
  action_running: "running",
  terminating: "running",
  waiting: "waiting",
  retrying: "waiting",
  condition_pending: "waiting",
  action_pending: "waiting",
  completed: "completed",
  delivered: "completed",
  alive: "completed",
  ok: "completed",
  failed: "failed",
  orphaned: "failed",
  degraded: "failed",
  stale: "failed",
  skipped: "skipped",
  completed_skipped: "skipped",
  cancelled: "cancelled",
};

export const TEXT_CLASSES: Record<Tone, string> = {
  pending: "text-pending",
  ready: "text-ready",
  running: "text-running",
  waiting: "text-waiting",
  completed: "text-completed",
  failed: "text-failed",
  skipped: "text-skipped",
  cancelled: "text-cancelled",
};

export const FILL_CLASSES: Record<Tone, string> = {
  pending: "bg-pending",
  ready: "bg-ready",
  running: "bg-running",
  waiting: "bg-waiting",
  completed: "bg-completed",
  failed: "bg-failed",
  skipped: "bg-skipped",
  cancelled: "bg-cancelled",
};

const SHAPES: Record<Tone, ReactNode> = {
  pending: <circle cx="8" cy="8" r="5.5" strokeDasharray="2.2 2.2" />,
  ready: (
    <>
      <circle cx="8" cy="8" r="5.5" />
      <circle cx="8" cy="8" r="1.4" fill="currentColor" stroke="none" />
    </>
  ),
  running: <path d="M8 2.5a5.5 5.5 0 1 1-5.2 3.7" className="origin-center animate-[spin_1s_linear_infinite]" />,
  waiting: <path d="M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M8 5v3.2l2.2 1.5" />,
  completed: (
    <>
      <circle cx="8" cy="8" r="6.5" fill="currentColor" stroke="none" />
      <path d="m5.2 8.2 2 2 3.8-4.2" stroke="var(--surface)" />
    </>
  ),
  failed: (
    <>
      <path d="M5.3 1.5h5.4l3.8 3.8v5.4l-3.8 3.8H5.3l-3.8-3.8V5.3z" fill="currentColor" stroke="none" />
      <path d="m5.7 5.7 4.6 4.6m0-4.6-4.6 4.6" stroke="var(--surface)" />
    </>
  ),
  skipped: <path d="M3 4.5 7 8l-4 3.5zM8.5 4.5l4 3.5-4 3.5z" fill="currentColor" stroke="none" />,
  cancelled: <rect x="3" y="3" width="10" height="10" rx="1.5" fill="currentColor" stroke="none" />,
};

export function StatusIcon({ status, size = 16 }: { status: string; size?: number }) {
  const tone = toneOf(status);
  return (
    <svg
      viewBox="0 0 16 16"
      width={size}
      height={size}
      className={`${TEXT_CLASSES[tone]} shrink-0`}
      fill="none"
      stroke="currentColor"
      strokeWidth="1.6"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      {SHAPES[tone]}
    </svg>
  );
}

/** "Container creating" for container_creating. */
export function statusText(status: string): string {
  const text = STATUS_TEXTS[status] ?? status.replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const STATUS_TEXTS: Record<string, string> = {
  ok: "Healthy",
  alive: "Healthy",
  pre_run: "Pre-run",
  completed_skipped: "Completed (skipped)",
};

/** A status with its icon and text. */
export function Status({ status }: { status: string }) {
  return (
    <span className={`inline-flex items-center gap-1.5 whitespace-nowrap font-medium ${TEXT_CLASSES[toneOf(status)]}`}>
      <StatusIcon status={status} />
      {statusText(status)}
    </span>
  );
}
