// A month of slots: each day with its slots, or with how many there were of each outcome when they are many.

import { StatusIcon, TEXT, toneOf } from "../components/status";
import { count } from "../lib/format";
import { type Day, type Outcome, outcomeCounts, type Slot, weeksOf } from "./calendar";

// More slots than this are told by a bar and numbers.
const SLOTS_DRAWN_MAX = 8;
const WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/** The state whose colour and shape an outcome has. */
export const SHAPES: Record<Outcome, string> = {
  completed: "completed",
  skipped: "skipped",
  failed: "failed",
  cancelled: "cancelled",
  running: "running",
  coming: "pending",
};

interface MonthGridProps {
  month: string;
  today: string;
  picked: string | undefined;
  days: ReadonlyMap<string, Slot[]>;
  onPick(date: string): void;
}

export function MonthGrid({ month, today, picked, days, onPick }: MonthGridProps) {
  return (
    <table className="w-full table-fixed border-collapse">
      <thead>
        <tr>
          {WEEKDAYS.map((weekday) => (
            <th key={weekday} scope="col" className="border-b border-line py-1.5 text-xs font-medium text-muted">
              <abbr title={weekday} className="no-underline">
                {weekday.slice(0, 3)}
              </abbr>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {weeksOf(month).map((week) => (
          <tr key={week[0]?.date}>
            {week.map((day) => (
              <td key={day.date} className="h-16 border-b border-r border-line p-0 align-top last:border-r-0 sm:h-24">
                <DayCell
                  day={day}
                  slots={days.get(day.date) ?? []}
                  isToday={day.date === today}
                  isPicked={day.date === picked}
                  onPick={() => onPick(day.date)}
                />
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface DayCellProps {
  day: Day;
  slots: Slot[];
  isToday: boolean;
  isPicked: boolean;
  onPick(): void;
}

function DayCell({ day, slots, isToday, isPicked, onPick }: DayCellProps) {
  const number = (
    <span
      className={`inline-flex size-6 items-center justify-center rounded-full text-xs tabular-nums ${
        isToday ? "bg-accent font-semibold text-on-accent" : day.inMonth ? "" : "text-muted"
      }`}
    >
      {day.number}
    </span>
  );
  if (slots.length === 0) {
    return <div className={`h-full p-1 ${day.inMonth ? "" : "bg-sunken/40"}`}>{number}</div>;
  }
  return (
    <button
      type="button"
      aria-pressed={isPicked}
      aria-label={`${day.date}: ${toldOf(slots)}`}
      onClick={onPick}
      className={`flex size-full flex-col p-1 text-left align-top hover:bg-sunken focus-visible:-outline-offset-2 ${
        isPicked ? "bg-sunken ring-2 ring-inset ring-accent" : day.inMonth ? "" : "bg-sunken/40"
      }`}
    >
      {number}
      {slots.length <= SLOTS_DRAWN_MAX ? <Icons slots={slots} /> : <Bar slots={slots} />}
    </button>
  );
}

function Icons({ slots }: { slots: Slot[] }) {
  return (
    <span className="mt-1 flex flex-wrap gap-0.5 px-0.5">
      {slots.map((slot) => (
        <StatusIcon key={slot.run?.run_id ?? slot.at} status={SHAPES[slot.outcome]} size={14} />
      ))}
    </span>
  );
}

function Bar({ slots }: { slots: Slot[] }) {
  const counts = outcomeCounts(slots);
  return (
    <span className="mt-auto block w-full">
      <span className="hidden flex-wrap gap-x-2 px-0.5 pb-1 text-xs tabular-nums sm:flex">
        {counts.map(([outcome, number]) => (
          <span key={outcome} className={`inline-flex items-center gap-0.5 ${TEXT[toneOf(SHAPES[outcome])]}`}>
            <StatusIcon status={SHAPES[outcome]} size={11} />
            {count(number)}
          </span>
        ))}
      </span>
      <span className="block px-0.5 text-[11px] tabular-nums text-muted sm:hidden">{count(slots.length)}</span>
      <span className="flex h-1.5 w-full gap-px overflow-hidden rounded-full">
        {counts.map(([outcome, number]) => (
          <span
            key={outcome}
            className={`bg-current ${TEXT[toneOf(SHAPES[outcome])]} ${outcome === "coming" ? "opacity-40" : ""}`}
            style={{ flexGrow: number, minWidth: 2 }}
          />
        ))}
      </span>
    </span>
  );
}

function toldOf(slots: Slot[]): string {
  return outcomeCounts(slots)
    .map(([outcome, number]) => `${count(number)} ${outcome === "coming" ? "to come" : outcome}`)
    .join(", ");
}
