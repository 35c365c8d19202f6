// Describes a schedule in words if its cron expression is a common one, otherwise by the expression.

export interface ScheduleTimes {
  cron: string | null;
  every_seconds: number | null;
  at: string | null;
  timezone: string;
}

/** "Every day at 02:30 Europe/Paris" */
export function describeSchedule(schedule: ScheduleTimes): string {
  const text = describeTimes(schedule);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function describeTimes(schedule: ScheduleTimes): string {
  if (schedule.every_seconds !== null) {
    return describeInterval(schedule.every_seconds);
  }
  if (schedule.at !== null) {
    return `once, ${schedule.at.slice(0, 16).replace("T", " ")} UTC`;
  }
  const words = schedule.cron === null ? "never" : (describeCron(schedule.cron) ?? schedule.cron);
  return ZONE_INDEPENDENT.test(words) ? words : `${words} ${schedule.timezone}`;
}

export function describeInterval(seconds: number): string {
  for (const [size, unit] of UNITS) {
    if (seconds % size === 0) {
      return every(seconds / size, unit);
    }
  }
  return every(seconds, "second");
}

/** Describe a cron expression; null if there is no short description. */
export function describeCron(cron: string): string | null {
  const expression = NICKNAMES[cron.trim().toLowerCase()] ?? cron.trim();
  const fields = expression.split(/\s+/);
  if (fields.length !== 5 && fields.length !== 6) {
    return null;
  }
  const [second, minute, hour, day, month, weekday] = fields.length === 6 ? fields : ["0", ...fields];
  const time = describeTime(second as string, minute as string, hour as string);
  const days = describeDays(day as string, month as string, weekday as string);
  if (time === null || days === null) {
    return null;
  }
  // "at 02:00" follows its days; "every 5 minutes" needs no days if it applies to all.
  if (time.startsWith("at ")) {
    return `${days} ${time}`;
  }
  return days === "every day" ? time : `${time}, ${days}`;
}

function describeTime(second: string, minute: string, hour: string): string | null {
  if (second !== "0") {
    return minute === "*" && hour === "*" ? describeStep(second, "second", "minute") : null;
  }
  if (hour === "*") {
    if (isNumber(minute)) {
      return Number(minute) === 0 ? "every hour" : `every hour at :${pad(minute)}`;
    }
    return describeStep(minute, "minute", "hour");
  }
  if (!isNumber(minute)) {
    const range = /^(\d+)-(\d+)$/.exec(hour);
    const step = describeStep(minute, "minute", "hour");
    return range && step ? `${step} from ${pad(range[1])}:00 to ${pad(range[2])}:59` : null;
  }
  if (hour.split(",").every(isNumber)) {
    const times = hour.split(",").map((value) => `${pad(value)}:${pad(minute)}`);
    return `at ${joinWords(times)}`;
  }
  const range = /^(\d+)-(\d+)$/.exec(hour);
  if (range) {
    return `every hour from ${pad(range[1])}:${pad(minute)} to ${pad(range[2])}:${pad(minute)}`;
  }
  const step = describeStep(hour, "hour", "day");
  return step && (Number(minute) === 0 ? step : `${step} at :${pad(minute)}`);
}

/** Describe a star or a step. A step that does not divide the larger unit is irregular and has no description. */
function describeStep(field: string, unit: string, largerUnit: string): string | null {
  if (field === "*") {
    return `every ${unit}`;
  }
  const step = Number(/^\*\/(\d+)$/.exec(field)?.[1] ?? Number.NaN);
  return (UNITS_PER[largerUnit] ?? 0) % step === 0 ? every(step, unit) : null;
}

function describeDays(day: string, month: string, weekday: string): string | null {
  if (month !== "*") {
    const name = MONTHS[monthNumber(month) - 1];
    return name && isNumber(day) && weekday === "*" ? `every year on ${Number(day)} ${name}` : null;
  }
  if (day === "*") {
    return describeWeekdays(weekday);
  }
  if (weekday !== "*") {
    return null;
  }
  if (day.toUpperCase() === "L") {
    return "on the last day of every month";
  }
  if (day.toUpperCase() === "LW") {
    return "on the last weekday of every month";
  }
  return day.split(",").every(isNumber) ? `on the ${joinWords(day.split(",").map(ordinal))} of every month` : null;
}

function describeWeekdays(field: string): string | null {
  if (field === "*") {
    return "every day";
  }
  const last = /^(\d)L$/i.exec(field);
  if (last) {
    return `on the last ${DAYS[Number(last[1]) % 7]} of every month`;
  }
  const nth = /^(\w+)#(\d)$/.exec(field);
  if (nth) {
    const name = DAYS[weekdayNumber(nth[1] as string)];
    return name ? `on the ${ordinal(nth[2] as string)} ${name} of every month` : null;
  }
  const range = /^(\w+)-(\w+)$/.exec(field);
  if (range) {
    const [first, until] = [weekdayNumber(range[1] as string), weekdayNumber(range[2] as string)];
    return DAYS[first] && DAYS[until] ? `${DAYS[first]} to ${DAYS[until]}` : null;
  }
  const names = field.split(",").map((name) => DAYS[weekdayNumber(name)]);
  return names.every((name) => name !== undefined) ? `every ${joinWords(names)}` : null;
}

// Descriptions that are the same in every time zone.
const ZONE_INDEPENDENT = /^(never|every (\d+ )?(second|minute)s?)$/;
const NICKNAMES: Record<string, string> = {
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
  "@monthly": "0 0 1 * *",
  "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@hourly": "0 * * * *",
};
const UNITS: [number, string][] = [
  [86_400, "day"],
  [3_600, "hour"],
  [60, "minute"],
];
const UNITS_PER: Record<string, number> = { minute: 60, hour: 60, day: 24 };
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];

/** -1 for an unknown weekday. */
function weekdayNumber(text: string): number {
  return isNumber(text)
    ? Number(text) % 7
    : DAYS.findIndex((name) => name.slice(0, 3).toUpperCase() === text.toUpperCase());
}

function monthNumber(text: string): number {
  return isNumber(text)
    ? Number(text)
    : MONTHS.findIndex((name) => name.slice(0, 3).toUpperCase() === text.toUpperCase()) + 1;
}

function every(count: number, unit: string): string {
  return count === 1 ? `every ${unit}` : `every ${count} ${unit}s`;
}

function joinWords(words: (string | undefined)[]): string {
  return words.length < 2 ? (words[0] ?? "") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

function ordinal(text: string): string {
  const number = Number(text);
  const ending = number % 100 >= 11 && number % 100 <= 13 ? "th" : (["th", "st", "nd", "rd"][number % 10] ?? "th");
  return `${number}${ending}`;
}

function isNumber(text: string): boolean {
  return /^\d+$/.test(text);
}

function pad(text: string | undefined): string {
  return (text ?? "").padStart(2, "0");
}
