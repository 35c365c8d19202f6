// Which events of a job are looked for.

import type { Event } from "../../api/types";

export interface EventFilter {
  type: string;
  node: string;
  text: string;
}

/** What an empty filter asks for is everything; the text is found in names and in what the event tells. */
export function eventTest({ type, node, text }: EventFilter): (event: Event) => boolean {
  const words = text.trim().toLowerCase();
  return (event) =>
    (type === "" || event.event_type === type) &&
    (node === "" || event.node_id === node) &&
    (words === "" || told(event).includes(words));
}

function told(event: Event): string {
  return `${event.event_type} ${event.node_id ?? ""} ${JSON.stringify(event.data ?? "")}`.toLowerCase();
}

/** What an event says in a few words. */
export function summaryOf({ data }: Event): string {
  if (!data) {
    return "";
  }
  const said = [
    data.error?.message,
    data.reason,
    data.delay_seconds !== undefined && `again in ${data.delay_seconds.toFixed(2)} s`,
    data.total_iterations !== undefined && `${data.total_iterations} iterations`,
    data.worker_id && `on ${data.worker_id}`,
    data.attempt_number !== undefined && data.attempt_number > 1 && `attempt ${data.attempt_number}`,
    data.queue !== undefined && data.queue !== "default" && `queue ${data.queue}`,
  ];
  return said.filter(Boolean).join(" · ");
}
