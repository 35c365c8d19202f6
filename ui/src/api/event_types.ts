// Generated from src/windlass/core/events.py by `make generate`; do not edit.

/** Events of jobs. */
export type EventType =
  | "job_created"
  | "job_started"
  | "job_retried"
  | "job_completed"
  | "job_failed"
  | "job_cancelled"
  | "node_ready"
  | "node_dispatched"
  | "node_started"
  | "node_retrying"
  | "node_completed"
  | "node_failed"
  | "node_skipped"
  | "node_cancelled"
  | "worker_lost"
  | "retry_sequence_completed"
  | "result_ignored"
  | "iterator_started"
  | "iterator_completed"
  | "iteration_dispatched"
  | "iteration_started"
  | "iteration_retrying"
  | "iteration_completed"
  | "iteration_failed"
  | "iteration_skipped"
  | "iteration_cancelled";

export const EVENT_WORDS: Record<EventType, string> = {
  job_created: "Job created",
  job_started: "Job started",
  job_retried: "Job retried",
  job_completed: "Job completed",
  job_failed: "Job failed",
  job_cancelled: "Job cancelled",
  node_ready: "Node ready",
  node_dispatched: "Node dispatched",
  node_started: "Node started",
  node_retrying: "Node retrying",
  node_completed: "Node completed",
  node_failed: "Node failed",
  node_skipped: "Node skipped",
  node_cancelled: "Node cancelled",
  worker_lost: "Node lost its worker",
  retry_sequence_completed: "Node finished its calls",
  result_ignored: "Node result ignored",
  iterator_started: "Loop started",
  iterator_completed: "Loop completed",
  iteration_dispatched: "Iteration dispatched",
  iteration_started: "Iteration started",
  iteration_retrying: "Iteration retrying",
  iteration_completed: "Iteration completed",
  iteration_failed: "Iteration failed",
  iteration_skipped: "Iteration skipped",
  iteration_cancelled: "Iteration cancelled",
};

/** Events of runs and schedules. */
export type RunEventType =
  | "run_created"
  | "run_state_changed"
  | "constraint_violated"
  | "check_failed"
  | "action_started"
  | "action_completed"
  | "action_failed"
  | "action_ignored"
  | "call_started"
  | "schedule_stopped"
  | "schedule_changed"
  | "slots_missed";

export const RUN_EVENT_WORDS: Record<RunEventType, string> = {
  run_created: "Run created",
  run_state_changed: "Run changed state",
  constraint_violated: "Run violated a constraint",
  check_failed: "Run could not check a constraint",
  action_started: "Run started an action",
  action_completed: "Run completed an action",
  action_failed: "Run failed an action",
  action_ignored: "Run ignored an action",
  call_started: "Run started a call",
  schedule_stopped: "Schedule stopped",
  schedule_changed: "Schedule changed",
  slots_missed: "Schedule missed slots",
};
