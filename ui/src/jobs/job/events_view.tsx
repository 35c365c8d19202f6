// The log of a job's events: all of them, or those that are looked for, as they come.

import { useMemo, useRef, useState } from "react";
import type { Event, Json } from "../../api/types";
import { Button, Choice, Empty } from "../../components/controls";
import { JsonTree } from "../../components/json_tree";
import { SearchField } from "../../components/search_field";
import { GrowingList } from "../../components/virtual_list";
import { clock } from "../../lib/clock";
import { plural } from "../../lib/format";
import { eventTest, summaryOf } from "./event_filter";
import { Sieve } from "./incremental_filter";
import type { Shown } from "./job_view_props";
import { ItemsButton } from "./load_iterations_button";

const ROW_PX = 29;

interface EventsProps extends Shown {
  isLive: boolean;
  node: string | null;
  onTravel(at: number): void;
}

export function EventsView({ live, at, isLive, node, onTravel }: EventsProps) {
  const [filter, setFilter] = useState({ type: "", text: "" });
  const [isOfNode, setOfNode] = useState(false);
  const { type, text } = filter;
  const wanted = isOfNode ? (node ?? "") : "";
  const sieve = useMemo(() => new Sieve<Event>(eventTest({ type, text, node: wanted })), [type, text, wanted]);
  const events = sieve.of(live.history.events);
  const types = useTypes(live.history.events);
  return (
    <div className="flex h-full flex-col rounded-lg border border-line bg-surface">
      <div className="flex flex-wrap items-center gap-2 border-b border-line px-3 py-2">
        <SearchField
          label="Search events"
          placeholder="Node, error, worker…"
          className="w-56 max-w-full"
          value={text}
          onSearch={(words) => setFilter({ ...filter, text: words })}
        />
        <Choice
          label="Type of event"
          hidden
          value={type}
          options={[["", "Any type"], ...types.map((name) => [name, name] as const)]}
          onChange={(event) => setFilter({ ...filter, type: event.target.value })}
        />
        {node && (
          <label className="inline-flex items-center gap-1.5">
            <input
              type="checkbox"
              className="accent-accent"
              checked={isOfNode}
              onChange={(event) => setOfNode(event.target.checked)}
            />
            Only {node}
          </label>
        )}
        <ItemsButton live={live}>Show events of loop items</ItemsButton>
        <span className="ml-auto text-xs text-muted tabular-nums">{plural(events.length, "event")}</span>
      </div>
      <EventRows key={`${type} ${text} ${wanted}`} events={events} isLive={isLive} at={at} onTravel={onTravel} />
    </div>
  );
}

/** The types that occur, which are few; only new events are looked at. */
function useTypes(events: readonly Event[]): string[] {
  const seen = useRef({ events, upTo: 0, types: new Set<string>() });
  if (seen.current.events !== events) {
    seen.current = { events, upTo: 0, types: new Set() };
  }
  const known = seen.current;
  for (; known.upTo < events.length; known.upTo++) {
    known.types.add(events[known.upTo]?.event_type ?? "");
  }
  return [...known.types].sort();
}

interface RowsProps {
  events: readonly Event[];
  isLive: boolean;
  at: number | undefined;
  onTravel(at: number): void;
}

function EventRows({ events, isLive, at, onTravel }: RowsProps) {
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const turn = (seq: number) => {
    const next = new Set(open);
    if (!next.delete(seq)) {
      next.add(seq);
    }
    setOpen(next);
  };
  if (events.length === 0) {
    return <Empty title="No event fits">Look for something else, or for any type.</Empty>;
  }
  return (
    <GrowingList label="Events" items={events} keyOf={(event) => event.seq} rowPx={ROW_PX} isLive={isLive}>
      {(event, stopFollowing) => (
        <EventRow
          event={event}
          isOpen={open.has(event.seq)}
          isShown={event.seq === at}
          onTurn={() => {
            stopFollowing();
            turn(event.seq);
          }}
          onTravel={() => onTravel(event.seq)}
        />
      )}
    </GrowingList>
  );
}

interface RowProps {
  event: Event;
  isOpen: boolean;
  isShown: boolean;
  onTurn(): void;
  onTravel(): void;
}

function EventRow({ event, isOpen, isShown, onTurn, onTravel }: RowProps) {
  return (
    <div className={`border-b border-line/40 ${isShown ? "bg-accent/10" : ""}`}>
      <button
        type="button"
        aria-expanded={isOpen}
        onClick={onTurn}
        className="flex w-full items-baseline gap-3 px-3 py-1 text-left hover:bg-sunken/60 focus-visible:-outline-offset-2"
      >
        <span className="w-10 shrink-0 text-right text-xs text-muted tabular-nums">{event.seq}</span>
        <span className="hidden shrink-0 font-mono text-xs text-muted sm:inline">{clock(event.timestamp)}</span>
        <span className={`shrink-0 truncate font-mono text-xs sm:w-44 ${toneOfType(event.event_type)}`}>
          {event.event_type}
        </span>
        {event.node_id && (
          <span className="min-w-0 truncate font-medium">
            {event.node_id}
            {event.index !== null && <span className="text-muted">[{event.index}]</span>}
          </span>
        )}
        <span className="hidden min-w-0 flex-1 truncate text-xs text-muted md:inline">{summaryOf(event)}</span>
      </button>
      {isOpen && (
        <div className="space-y-1 bg-sunken/40 px-3 py-2 sm:pl-16">
          <JsonTree value={{ timestamp: event.timestamp, data: event.data as Json, meta: event.meta }} />
          <Button className="!h-7 text-xs" onClick={onTravel}>
            Show the job at this moment
          </Button>
        </div>
      )}
    </div>
  );
}

const TONES: [RegExp, string][] = [
  [/failed|lost|timeout/, "text-failed"],
  [/retr/, "text-waiting"],
  [/completed/, "text-completed"],
  [/started/, "text-running"],
  [/cancel/, "text-cancelled"],
];

function toneOfType(type: string): string {
  return TONES.find(([fits]) => fits.test(type))?.[1] ?? "text-muted";
}
