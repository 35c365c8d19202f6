// The slider over a job's events: back to any moment, step by step, played again, or live.

import { useCallback, useEffect, useState } from "react";
import { Button, Choice } from "../../components/controls";
import { clock } from "../../lib/clock";
import { count, plural } from "../../lib/format";
import type { Shown } from "./job_view_props";
import type { LiveJob } from "./live_job";
import { ItemsButton } from "./load_iterations_button";
import { playedUntil } from "./time_position";

const FRAME_MS = 60;
const SPEEDS = [
  ["0.1", "0.1×"],
  ["1", "1×"],
  ["10", "10×"],
  ["100", "100×"],
] as const;

interface Travel extends Shown {
  onTravel(at: number | undefined): void;
}

export function TimeTravel(travel: Travel) {
  const { live, at, onTravel } = travel;
  const { events } = live.history;
  const position = at === undefined ? events.length : live.history.countUpTo(at);
  const moveTo = useCallback(
    (next: number) => {
      const { events } = live.history;
      const bounded = Math.max(0, Math.min(events.length, next));
      onTravel(bounded === events.length ? undefined : (events[bounded - 1]?.seq ?? 0));
    },
    [live, onTravel],
  );
  useStepKeys(position, moveTo);
  const [speed, setSpeed] = useState("1");
  const [isPlaying, setPlaying] = usePlayer(live, at, Number(speed), moveTo);
  const play = () => {
    if (!isPlaying && at === undefined) {
      moveTo(0);
    }
    setPlaying(!isPlaying);
  };
  return (
    <div className="flex flex-wrap items-center gap-x-3 gap-y-1 rounded-lg border border-line bg-surface px-2 py-1">
      <div className="flex items-center">
        <Step name="To the start" sign="start" disabled={position === 0} onClick={() => moveTo(0)} />
        <Step name="One event back ( [ )" sign="back" disabled={position === 0} onClick={() => moveTo(position - 1)} />
        <Step name={isPlaying ? "Pause" : "Play"} sign={isPlaying ? "pause" : "play"} onClick={play} />
        <Step name="One event on ( ] )" sign="on" disabled={at === undefined} onClick={() => moveTo(position + 1)} />
        <Choice
          label="Speed"
          hidden
          className="!h-7 !px-1 text-xs"
          value={speed}
          options={SPEEDS}
          onChange={(event) => setSpeed(event.target.value)}
        />
      </div>
      <input
        type="range"
        aria-label="Moment of the job, by its events"
        aria-valuetext={momentText(live, at)}
        className="h-8 min-w-32 flex-1 accent-accent"
        min={0}
        max={Math.max(1, events.length)}
        value={position}
        onChange={(event) => {
          setPlaying(false);
          moveTo(Number(event.target.value));
        }}
      />
      <Told live={live} at={at} onLive={() => onTravel(undefined)} />
      {at !== undefined && live.hasEnded && <ItemsButton live={live}>Show loops' counts as they were</ItemsButton>}
    </div>
  );
}

// As wide for every moment: a slider that changes its length under the hand can not be dragged.
const TOLD = "flex w-full items-center text-xs sm:w-80 lg:w-96";

function Told({ live, at, onLive }: { live: LiveJob; at: number | undefined; onLive(): void }) {
  if (at === undefined) {
    return (
      <span className={`${TOLD} gap-1.5 text-muted`}>
        <span className={`size-2 rounded-full ${live.hasEnded ? "bg-line" : "bg-running"}`} aria-hidden="true" />
        {nowText(live)}
      </span>
    );
  }
  return (
    <span className={`${TOLD} gap-2`}>
      <span className="min-w-0 truncate tabular-nums">{momentText(live, at)}</span>
      <Button look="main" className="ml-auto !h-6 !px-2 text-xs" onClick={onLive}>
        {live.hasEnded ? "To the end" : "Live"}
      </Button>
    </span>
  );
}

function nowText(live: LiveJob): string {
  const events = plural(live.history.length, "event");
  if (!live.isLoaded) {
    return `Reading, ${events} so far`;
  }
  return live.hasEnded ? `At the end, ${events}` : `Live, ${events}`;
}

function momentText(live: LiveJob, at: number | undefined): string {
  if (at === undefined) {
    return nowText(live);
  }
  const event = live.history.eventAt(at);
  if (!event) {
    return "Before the first event";
  }
  const place = `${count(live.history.countUpTo(at))} of ${count(live.history.length)}`;
  const index = event.index === null ? "" : `[${event.index}]`;
  const node = event.node_id === null ? "" : ` ${event.node_id}${index}`;
  return `${place} · ${clock(event.timestamp)} · ${event.event_type}${node}`;
}

/** Plays the events by the clock they happened on. */
function usePlayer(
  live: LiveJob,
  at: number | undefined,
  speed: number,
  moveTo: (position: number) => void,
): [boolean, (isPlaying: boolean) => void] {
  const [isPlaying, setPlaying] = useState(false);
  useEffect(() => {
    if (!isPlaying) {
      return;
    }
    if (at === undefined) {
      setPlaying(false);
      return;
    }
    const { history } = live;
    const position = history.countUpTo(at);
    const shown = history.events[Math.max(0, position - 1)];
    const next = history.events[position];
    if (!shown || !next) {
      moveTo(history.length);
      return;
    }
    // The next event, after as long as it took; all that happen within a frame come together.
    const begun = Date.parse(shown.timestamp);
    const wait = Math.max(FRAME_MS, (Date.parse(next.timestamp) - begun) / speed);
    const timer = setTimeout(() => {
      moveTo(Math.max(position + 1, playedUntil(history.events, position, begun + wait * speed)));
    }, wait);
    return () => clearTimeout(timer);
  }, [isPlaying, live, at, speed, moveTo]);
  return [isPlaying, setPlaying];
}

function useStepKeys(position: number, moveTo: (position: number) => void): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const isTyping = target.closest("textarea, select, dialog, input:not([type=range])");
      const step = event.key === "[" ? -1 : event.key === "]" ? 1 : 0;
      if (step !== 0 && !isTyping && !event.ctrlKey && !event.metaKey) {
        moveTo(position + step);
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [position, moveTo]);
}

const SIGNS = {
  start: "M4 3v10M13 3 7 8l6 5z",
  back: "M11 3 5 8l6 5z",
  play: "M5 3v10l8-5z",
  pause: "M5 3v10M11 3v10",
  on: "m5 3 6 5-6 5z",
};

function Step({
  name,
  sign,
  disabled,
  onClick,
}: {
  name: string;
  sign: keyof typeof SIGNS;
  disabled?: boolean;
  onClick(): void;
}) {
  return (
    <Button look="quiet" className="!h-8 !px-2" aria-label={name} title={name} disabled={disabled} onClick={onClick}>
      <svg
        viewBox="0 0 16 16"
        width="14"
        height="14"
        fill="currentColor"
        stroke="currentColor"
        strokeWidth="1.6"
        strokeLinejoin="round"
        strokeLinecap="round"
        aria-hidden="true"
      >
        <path d={SIGNS[sign]} />
      </svg>
    </Button>
  );
}
