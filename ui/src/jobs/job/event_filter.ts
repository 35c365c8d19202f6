// Filters and summarizes the events of a job.

import { EVENT_WORDS, type EventType } from "../../api/event_types";
import type { Event } from "../../api/types";

export interface EventFilter {
  type: EventType | "";
  node: string;
  text: string;
}

/** Return a predicate for events. Empty fields of the filter match everything. */
export function eventMatcher({ type, node, text }: EventFilter): (event: Event) => boolean {
  const query = text.trim().toLowerCase();
  return (event) =>
    (type === "" || event.event_type === type) &&
    (node === "" || event.node_id === node) &&
    (query === "" || searchableText(event).includes(query));
}

function searchableText(event: Event): string {
  const words = [event.event_type, eventWords(event.event_type), event.node_id ?? "", JSON.stringify(event.data ?? "")];
  return words.join(" ").toLowerCase();
}

/** A newer server may send types that this version does not know. */
export function eventWords(type: EventType): string {
  return EVENT_WORDS[type] ?? type;
}

export function eventSummary({ data }: Event): string {
  if (!data) {
    return "";
  }
  const parts = [
    data.error?.message,
    data.reason,
    data.delay_seconds !== undefined && `retry in ${data.delay_seconds.toFixed(2)} s`,
    data.total_iterations !== undefined && `${data.total_iterations} iterations`,
    data.worker_id && `on ${data.worker_id}`,
    data.attempt_number !== undefined && data.attempt_number > 1 && `attempt ${data.attempt_number}`,
    data.queue !== undefined && data.queue !== "default" && `queue ${data.queue}`,
  ];
  return parts.filter(Boolean).join(" · ");
}

/** The text color of each event type. */
export const EVENT_CLASSES: Record<EventType, string> = {
  job_created: "text-muted",
  job_started: "text-running",
  job_completed: "text-completed",
  job_failed: "text-failed",
  job_cancelled: "text-cancelled",
  job_retried: "text-waiting",
  node_ready: "text-muted",
  node_dispatched: "text-muted",
  node_started: "text-running",
  node_completed: "text-completed",
  node_retrying: "text-waiting",
  node_failed: "text-failed",
  node_skipped: "text-muted",
  node_cancelled: "text-cancelled",
  iterator_started: "text-running",
  iterator_completed: "text-completed",
  iteration_dispatched: "text-muted",
  iteration_started: "text-running",
  iteration_completed: "text-completed",
  iteration_retrying: "text-waiting",
  iteration_failed: "text-failed",
  iteration_skipped: "text-muted",
  iteration_cancelled: "text-cancelled",
  retry_sequence_completed: "text-waiting",
  result_ignored: "text-muted",
  worker_lost: "text-failed",
};
