// A month of slots: icons for a few slots per day, counts and a bar for many.

import { StatusIcon, TEXT_CLASSES, toneOf } from "../components/status";
import { formatCount } from "../lib/format";
import { countOutcomes, type Day, type Outcome, type Slot, weeksOf } from "./calendar";

// Days with more slots show counts and a bar.
const ICONS_MAX = 8;
const WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/** The status whose icon an outcome has. */
export const OUTCOME_STATUS: Record<Outcome, string> = {
  completed: "completed",
  skipped: "skipped",
  failed: "failed",
  cancelled: "cancelled",
  running: "running",
  upcoming: "pending",
};

interface MonthGridProps {
  month: string;
  today: string;
  selected: string | undefined;
  days: ReadonlyMap<string, Slot[]>;
  onSelect(date: string): void;
}

export function MonthGrid({ month, today, selected, days, onSelect }: MonthGridProps) {
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
                  isSelected={day.date === selected}
                  onSelect={() => onSelect(day.date)}
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
  isSelected: boolean;
  onSelect(): void;
}

function DayCell({ day, slots, isToday, isSelected, onSelect }: DayCellProps) {
  let numberClass = day.isInMonth ? "" : "text-muted";
  if (isToday) {
    numberClass = "bg-accent font-semibold text-on-accent";
  }
  let cellClass = day.isInMonth ? "" : "bg-sunken/40";
  if (isSelected) {
    cellClass = "bg-sunken ring-2 ring-inset ring-accent";
  }
  const number = (
    <span className={`inline-flex size-6 items-center justify-center rounded-full text-xs tabular-nums ${numberClass}`}>
      {day.number}
    </span>
  );
  if (slots.length === 0) {
    return <div className={`h-full p-1 ${day.isInMonth ? "" : "bg-sunken/40"}`}>{number}</div>;
  }
  return (
    <button
      type="button"
      aria-pressed={isSelected}
      aria-label={`${day.date}: ${describeSlots(slots)}`}
      onClick={onSelect}
      className={`flex size-full flex-col p-1 text-left align-top hover:bg-sunken focus-visible:-outline-offset-2 ${cellClass}`}
    >
      {number}
      {slots.length <= ICONS_MAX ? <Icons slots={slots} /> : <Bar slots={slots} />}
    </button>
  );
}

function Icons({ slots }: { slots: Slot[] }) {
  return (
    <span className="mt-1 flex flex-wrap gap-0.5 px-0.5">
      {slots.map((slot) => (
        <StatusIcon key={slot.run?.run_id ?? slot.at} status={OUTCOME_STATUS[slot.outcome]} size={14} />
      ))}
    </span>
  );
}

function Bar({ slots }: { slots: Slot[] }) {
  const counts = countOutcomes(slots);
  return (
    <span className="mt-auto block w-full">
      <span className="hidden flex-wrap gap-x-2 px-0.5 pb-1 text-xs tabular-nums sm:flex">
        {counts.map(([outcome, number]) => (
          <span
            key={outcome}
            className={`inline-flex items-center gap-0.5 ${TEXT_CLASSES[toneOf(OUTCOME_STATUS[outcome])]}`}
          >
            <StatusIcon status={OUTCOME_STATUS[outcome]} size={11} />
            {formatCount(number)}
          </span>
        ))}
      </span>
      <span className="block px-0.5 text-[11px] tabular-nums text-muted sm:hidden">{formatCount(slots.length)}</span>
      <span className="flex h-1.5 w-full gap-px overflow-hidden rounded-full">
        {counts.map(([outcome, number]) => (
          <span
            key={outcome}
            className={`bg-current ${TEXT_CLASSES[toneOf(OUTCOME_STATUS[outcome])]} ${outcome === "upcoming" ? "opacity-40" : ""}`}
            style={{ flexGrow: number, minWidth: 2 }}
          />
        ))}
      </span>
    </span>
  );
}

function describeSlots(slots: Slot[]): string {
  return countOutcomes(slots)
    .map(([outcome, number]) => `${formatCount(number)} ${outcome}`)
    .join(", ");
}
