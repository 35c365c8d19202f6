// The slider over the events of a job, with step and play buttons.

import { useCallback, useEffect, useState } from "react";
import { Button, Select } from "../../components/controls";
import { formatClock } from "../../lib/clock";
import { formatCount, pluralize } from "../../lib/format";
import { eventWords } from "./event_filter";
import type { JobViewProps } from "./job_view_props";
import type { LiveJob } from "./live_job";
import { LoadIterationsButton } from "./load_iterations_button";
import { countPlayed } from "./time_position";

const FRAME_MS = 60;
const SPEEDS = [
  ["0.1", "0.1×"],
  ["1", "1×"],
  ["10", "10×"],
  ["100", "100×"],
] as const;

interface TimeTravelProps extends JobViewProps {
  onTravel(at: number | undefined): void;
}

export function TimeTravel({ live, at, onTravel }: TimeTravelProps) {
  const { events } = live.history;
  const position = at === undefined ? events.length : live.history.countUpTo(at);
  const moveTo = useCallback(
    (next: number) => {
      const { events } = live.history;
      const position = Math.max(0, Math.min(events.length, next));
      onTravel(position === events.length ? undefined : (events[position - 1]?.seq ?? 0));
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
        <StepButton name="First event" icon="start" disabled={position === 0} onClick={() => moveTo(0)} />
        <StepButton
          name="Previous event ([)"
          icon="back"
          disabled={position === 0}
          onClick={() => moveTo(position - 1)}
        />
        <StepButton name={isPlaying ? "Pause" : "Play"} icon={isPlaying ? "pause" : "play"} onClick={play} />
        <StepButton
          name="Next event (])"
          icon="forward"
          disabled={at === undefined}
          onClick={() => moveTo(position + 1)}
        />
        <Select
          label="Speed"
          hideLabel
          className="!h-7 !px-1 text-xs"
          value={speed}
          options={SPEEDS}
          onChange={(event) => setSpeed(event.target.value)}
        />
      </div>
      <input
        type="range"
        aria-label="Event"
        aria-valuetext={positionText(live, at)}
        className="h-8 min-w-32 flex-1 accent-accent"
        min={0}
        max={Math.max(1, events.length)}
        value={position}
        onChange={(event) => {
          setPlaying(false);
          moveTo(Number(event.target.value));
        }}
      />
      <Position live={live} at={at} onLive={() => onTravel(undefined)} />
      {at !== undefined && live.isFinal && <LoadIterationsButton live={live}>Load loop progress</LoadIterationsButton>}
    </div>
  );
}

// A fixed width: the slider must not change its length while it is dragged.
const POSITION_CLASS = "flex w-full items-center text-xs sm:w-80 lg:w-96";

function Position({ live, at, onLive }: { live: LiveJob; at: number | undefined; onLive(): void }) {
  if (at === undefined) {
    return (
      <span className={`${POSITION_CLASS} gap-1.5 text-muted`}>
        <span className={`size-2 rounded-full ${live.isFinal ? "bg-line" : "bg-running"}`} aria-hidden="true" />
        {presentText(live)}
      </span>
    );
  }
  return (
    <span className={`${POSITION_CLASS} gap-2`}>
      <span className="min-w-0 truncate tabular-nums">{positionText(live, at)}</span>
      <Button variant="primary" className="ml-auto !h-6 !px-2 text-xs" onClick={onLive}>
        {live.isFinal ? "Last event" : "Live"}
      </Button>
    </span>
  );
}

function presentText(live: LiveJob): string {
  const events = pluralize(live.history.length, "event");
  if (!live.isLoaded) {
    return live.hasState ? `Loading, ${events}` : "Loading…";
  }
  return live.isFinal ? `Ended, ${events}` : `Live, ${events}`;
}

function positionText(live: LiveJob, at: number | undefined): string {
  if (at === undefined) {
    return presentText(live);
  }
  const event = live.history.eventAt(at);
  if (!event) {
    return "Before the first event";
  }
  const number = `${formatCount(live.history.countUpTo(at))} of ${formatCount(live.history.length)}`;
  const index = event.index === null ? "" : `[${event.index}]`;
  const node = event.node_id === null ? "" : `: ${event.node_id}${index}`;
  return `${number} · ${formatClock(event.timestamp)} · ${eventWords(event.event_type)}${node}`;
}

/** Play the events with their original timing. */
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
    const current = history.events[Math.max(0, position - 1)];
    const next = history.events[position];
    if (!current || !next) {
      moveTo(history.length);
      return;
    }
    // Waits as long as the next event took. Events within one frame are shown together.
    const startedAt = Date.parse(current.timestamp);
    const wait = Math.max(FRAME_MS, (Date.parse(next.timestamp) - startedAt) / speed);
    const timer = setTimeout(() => {
      moveTo(Math.max(position + 1, countPlayed(history.events, position, startedAt + wait * speed)));
    }, wait);
    return () => clearTimeout(timer);
  }, [isPlaying, live, at, speed, moveTo]);
  return [isPlaying, setPlaying];
}

function useStepKeys(position: number, moveTo: (position: number) => void): void {
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const isTyping = target.closest("textarea, select, dialog, input:not([type=range])");
      const step = { "[": -1, "]": 1 }[event.key] ?? 0;
      if (step !== 0 && !isTyping && !event.ctrlKey && !event.metaKey) {
        moveTo(position + step);
      }
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, [position, moveTo]);
}

const ICONS = {
  start: "M4 3v10M13 3 7 8l6 5z",
  back: "M11 3 5 8l6 5z",
  play: "M5 3v10l8-5z",
  pause: "M5 3v10M11 3v10",
  forward: "m5 3 6 5-6 5z",
};

function StepButton({
  name,
  icon,
  disabled,
  onClick,
}: {
  name: string;
  icon: keyof typeof ICONS;
  disabled?: boolean;
  onClick(): void;
}) {
  return (
    <Button variant="ghost" className="!h-8 !px-2" aria-label={name} title={name} disabled={disabled} onClick={onClick}>
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
        <path d={ICONS[icon]} />
      </svg>
    </Button>
  );
}
