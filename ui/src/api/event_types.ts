// Generated from src/windlass/core/events.py by `make generate`; do not edit.

interface EventDeclaration {
  subject: "job" | "node" | "loop" | "iteration";
  /** The status of the subject after the event; null if the event does not change it. */
  status: string | null;
  label: string;
}

/** The types of the events of jobs. */
export const EVENTS = {
  job_created: { subject: "job", status: "pending", label: "Job created" },
  job_started: { subject: "job", status: "running", label: "Job started" },
  job_retried: { subject: "job", status: "running", label: "Job retried" },
  job_completed: { subject: "job", status: "completed", label: "Job completed" },
  job_failed: { subject: "job", status: "failed", label: "Job failed" },
  job_cancelled: { subject: "job", status: "cancelled", label: "Job cancelled" },
  node_ready: { subject: "node", status: "ready", label: "Node ready" },
  node_dispatched: { subject: "node", status: "dispatched", label: "Node dispatched" },
  node_started: { subject: "node", status: "running", label: "Node started" },
  node_retrying: { subject: "node", status: "waiting", label: "Node retrying" },
  node_completed: { subject: "node", status: "completed", label: "Node completed" },
  node_failed: { subject: "node", status: "failed", label: "Node failed" },
  node_skipped: { subject: "node", status: "skipped", label: "Node skipped" },
  node_cancelled: { subject: "node", status: "cancelled", label: "Node cancelled" },
  worker_lost: { subject: "node", status: "dispatched", label: "Node lost its worker" },
  task_redelivered: { subject: "node", status: "dispatched", label: "Node handed back by its worker" },
  retry_sequence_completed: { subject: "node", status: "waiting", label: "Node finished its calls" },
  result_ignored: { subject: "node", status: null, label: "Node result ignored" },
  iterator_started: { subject: "loop", status: null, label: "Loop started" },
  iterator_completed: { subject: "loop", status: null, label: "Loop completed" },
  iteration_dispatched: { subject: "iteration", status: "dispatched", label: "Iteration dispatched" },
  iteration_started: { subject: "iteration", status: "running", label: "Iteration started" },
  iteration_retrying: { subject: "iteration", status: "waiting", label: "Iteration retrying" },
  iteration_completed: { subject: "iteration", status: "completed", label: "Iteration completed" },
  iteration_failed: { subject: "iteration", status: "failed", label: "Iteration failed" },
  iteration_skipped: { subject: "iteration", status: "skipped", label: "Iteration skipped" },
  iteration_cancelled: { subject: "iteration", status: "cancelled", label: "Iteration cancelled" },
} as const satisfies Record<string, EventDeclaration>;

export type EventType = keyof typeof EVENTS;

/** The types that change the status of a subject. */
export type StatusEventType<Subject extends EventDeclaration["subject"]> = {
  [Type in EventType]: (typeof EVENTS)[Type] extends { subject: Subject; status: string } ? Type : never;
}[EventType];
