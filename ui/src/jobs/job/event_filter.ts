// Filters and summarizes the events of a job.

import { EVENTS, type EventType } from "../../api/event_types";
import type { Event, EventData } from "../../api/types";
import { TEXT_CLASSES, type Tone, toneOf } from "../../components/status";
import { formatDuration, pluralize } from "../../lib/format";
import { isFurtherCall } from "../model/fold";

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
  return EVENTS[type]?.label ?? type;
}

export function eventSummary({ data }: Event): string {
  if (!data) {
    return "";
  }
  const parts = [
    data.error?.message,
    data.reason,
    nextAttempt(data),
    data.total_iterations !== undefined && pluralize(data.total_iterations, "iteration"),
    ...LOOP_COUNTS.map(([name, words]) => Number(data[name] ?? 0) > 0 && `${data[name]} ${words}`),
    typeof data["total_attempts"] === "number" && pluralize(data["total_attempts"], "call"),
    typeof data["failures"] === "number" && pluralize(data["failures"], "failure"),
    data["is_exhausted"] === true && "more pages left",
    data.worker_id && `on ${data.worker_id}`,
    data.attempt_number !== undefined && data.attempt_number > 1 && `attempt ${data.attempt_number}`,
    data.queue !== undefined && data.queue !== "default" && `queue ${data.queue}`,
  ];
  return parts.filter(Boolean).join(" · ");
}

/** Counts at the end of a loop that are shown if they are not 0. */
const LOOP_COUNTS = [
  ["failed", "failed"],
  ["skipped", "skipped"],
  ["exhausted", "with more pages left"],
] as const;

function nextAttempt(data: EventData): string | false {
  if (data.delay_seconds === undefined) {
    return false;
  }
  const delay = formatDuration(data.delay_seconds);
  if (!isFurtherCall(data)) {
    return `retry in ${delay}`;
  }
  const again = `call ${data["calls"]} succeeded, calling again`;
  return data.delay_seconds > 0 ? `${again} in ${delay}` : again;
}

/** The colors of types that differ from the color of the status, or that have no status. */
const EVENT_TONES: Partial<Record<EventType, Tone>> = {
  iterator_started: "running",
  iterator_completed: "completed",
  worker_lost: "failed",
};

/** Return the text color of an event. */
export function eventClass(type: EventType): string {
  const tone = EVENT_TONES[type];
  if (tone !== undefined) {
    return TEXT_CLASSES[tone];
  }
  const status = EVENTS[type]?.status;
  return status ? TEXT_CLASSES[toneOf(status)] : "text-muted";
}
