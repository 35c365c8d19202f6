// Generated from src/windlass/core/events.py by `make generate`; do not edit.

export type EventType =
  | "job_created"
  | "job_started"
  | "job_completed"
  | "job_failed"
  | "job_cancelled"
  | "job_retried"
  | "node_ready"
  | "node_dispatched"
  | "node_started"
  | "node_completed"
  | "node_retrying"
  | "node_failed"
  | "node_skipped"
  | "node_cancelled"
  | "iterator_started"
  | "iterator_completed"
  | "iteration_dispatched"
  | "iteration_started"
  | "iteration_completed"
  | "iteration_retrying"
  | "iteration_failed"
  | "iteration_skipped"
  | "iteration_cancelled"
  | "retry_sequence_completed"
  | "result_ignored"
  | "worker_lost";

export const EVENT_WORDS: Record<EventType, string> = {
  job_created: "Job created",
  job_started: "Job started",
  job_completed: "Job completed",
  job_failed: "Job failed",
  job_cancelled: "Job cancelled",
  job_retried: "Job retried",
  node_ready: "Node ready",
  node_dispatched: "Node dispatched",
  node_started: "Node started",
  node_completed: "Node completed",
  node_retrying: "Node retrying",
  node_failed: "Node failed",
  node_skipped: "Node skipped",
  node_cancelled: "Node cancelled",
  iterator_started: "Loop started",
  iterator_completed: "Loop completed",
  iteration_dispatched: "Iteration dispatched",
  iteration_started: "Iteration started",
  iteration_completed: "Iteration completed",
  iteration_retrying: "Iteration retrying",
  iteration_failed: "Iteration failed",
  iteration_skipped: "Iteration skipped",
  iteration_cancelled: "Iteration cancelled",
  retry_sequence_completed: "Retries completed",
  result_ignored: "Result ignored",
  worker_lost: "Worker lost",
};
