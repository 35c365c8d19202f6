// The events of a job, with filters, updated live.

import { useMemo, useRef, useState } from "react";
import type { EventType } from "../../api/event_types";
import type { Event, Json } from "../../api/types";
import { Button, EmptyState, Select } from "../../components/controls";
import { JsonTree } from "../../components/json_tree";
import { SearchField } from "../../components/search_field";
import { VirtualList } from "../../components/virtual_list";
import { formatClock } from "../../lib/clock";
import { pluralize } from "../../lib/format";
import { type EventFilter, eventClass, eventMatcher, eventSummary, eventWords } from "./event_filter";
import { IncrementalFilter } from "./incremental_filter";
import type { JobViewProps } from "./job_view_props";
import { LoadIterationsButton } from "./load_iterations_button";

const ROW_PX = 29;

interface EventsProps extends JobViewProps {
  isLive: boolean;
  node: string | null;
  onTravel(at: number): void;
}

export function EventsView({ live, at, isLive, node, onTravel }: EventsProps) {
  const [filter, setFilter] = useState<Pick<EventFilter, "type" | "text">>({ type: "", text: "" });
  const [isNodeOnly, setNodeOnly] = useState(false);
  const { type, text } = filter;
  const nodeFilter = isNodeOnly ? (node ?? "") : "";
  const incremental = useMemo(
    () => new IncrementalFilter<Event>(eventMatcher({ type, text, node: nodeFilter })),
    [type, text, nodeFilter],
  );
  const events = incremental.apply(live.history.events);
  const types = useEventTypes(live.history.events);
  return (
    <div className="flex h-full flex-col rounded-lg border border-line bg-surface">
      <div className="flex flex-wrap items-center gap-2 border-b border-line px-3 py-2">
        <SearchField
          label="Search events"
          placeholder="Node, error or worker"
          className="w-56 max-w-full"
          value={text}
          onSearch={(search) => setFilter({ ...filter, text: search })}
        />
        <Select
          label="Event type"
          hideLabel
          value={type}
          options={[["", "Any type"], ...types.map((name) => [name, eventWords(name)] as const)]}
          onChange={(event) => setFilter({ ...filter, type: event.target.value as EventType | "" })}
        />
        {node && (
          <label className="inline-flex items-center gap-1.5">
            <input
              type="checkbox"
              className="accent-accent"
              checked={isNodeOnly}
              onChange={(event) => setNodeOnly(event.target.checked)}
            />
            Only {node}
          </label>
        )}
        <LoadIterationsButton live={live}>Load iteration events</LoadIterationsButton>
        <span className="ml-auto text-xs text-muted tabular-nums">{pluralize(events.length, "event")}</span>
      </div>
      <EventRows key={`${type} ${text} ${nodeFilter}`} events={events} isLive={isLive} at={at} onTravel={onTravel} />
    </div>
  );
}

/** The types that occur. Only new events are examined. */
function useEventTypes(events: readonly Event[]): EventType[] {
  const examined = useRef({ events, count: 0, types: new Set<EventType>() });
  if (examined.current.events !== events) {
    examined.current = { events, count: 0, types: new Set() };
  }
  const { current } = examined;
  for (; current.count < events.length; current.count++) {
    current.types.add((events[current.count] as Event).event_type);
  }
  return [...current.types].sort();
}

interface RowsProps {
  events: readonly Event[];
  isLive: boolean;
  at: number | undefined;
  onTravel(at: number): void;
}

function EventRows({ events, isLive, at, onTravel }: RowsProps) {
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const toggle = (seq: number) => {
    const next = new Set(open);
    if (!next.delete(seq)) {
      next.add(seq);
    }
    setOpen(next);
  };
  if (events.length === 0) {
    return <EmptyState title="No matching events">Change the search or the event type.</EmptyState>;
  }
  return (
    <VirtualList label="Events" items={events} keyOf={(event) => event.seq} rowPx={ROW_PX} isLive={isLive}>
      {(event, stopFollowing) => (
        <EventRow
          event={event}
          isOpen={open.has(event.seq)}
          isCurrent={event.seq === at}
          onToggle={() => {
            stopFollowing();
            toggle(event.seq);
          }}
          onTravel={() => onTravel(event.seq)}
        />
      )}
    </VirtualList>
  );
}

interface RowProps {
  event: Event;
  isOpen: boolean;
  isCurrent: boolean;
  onToggle(): void;
  onTravel(): void;
}

function EventRow({ event, isOpen, isCurrent, onToggle, onTravel }: RowProps) {
  return (
    <div className={`border-b border-line/40 ${isCurrent ? "bg-accent/10" : ""}`}>
      <button
        type="button"
        aria-expanded={isOpen}
        onClick={onToggle}
        className="flex w-full items-baseline gap-3 px-3 py-1 text-left hover:bg-sunken/60 focus-visible:-outline-offset-2"
      >
        <span className="w-10 shrink-0 text-right text-xs text-muted tabular-nums">{event.seq}</span>
        <span className="hidden shrink-0 font-mono text-xs text-muted sm:inline">{formatClock(event.timestamp)}</span>
        <span className={`shrink-0 truncate font-medium sm:w-44 ${eventClass(event.event_type)}`}>
          {eventWords(event.event_type)}
        </span>
        {event.node_id && (
          <span className="min-w-0 truncate">
            {event.node_id}
            {event.index !== null && <span className="text-muted">[{event.index}]</span>}
          </span>
        )}
        <span className="hidden min-w-0 flex-1 truncate text-xs text-muted md:inline">{eventSummary(event)}</span>
      </button>
      {isOpen && (
        <div className="space-y-1 bg-sunken/40 px-3 py-2 sm:pl-16">
          <JsonTree value={{ timestamp: event.timestamp, data: event.data as Json, meta: event.meta }} />
          <Button className="!h-7 text-xs" onClick={onTravel}>
            Go to event
          </Button>
        </div>
      )}
    </div>
  );
}
