// Instants, durations and numbers as people read them.

/** 0.4 ms, 12 ms, 3.20 s, 2 m 05 s, 3 h 12 m, 4 d 2 h. */
export function duration(seconds: number): string {
  if (seconds < 0.0095) {
    return `${(seconds * 1000).toFixed(1)} ms`;
  }
  if (seconds < 0.9995) {
    return `${Math.round(seconds * 1000)} ms`;
  }
  if (seconds < 59.995) {
    return `${seconds.toFixed(seconds < 9.995 ? 2 : 1)} s`;
  }
  const whole = Math.round(seconds);
  if (whole < 3600) {
    return `${Math.floor(whole / 60)} m ${pad(whole % 60)} s`;
  }
  if (whole < 86_400) {
    return `${Math.floor(whole / 3600)} h ${pad(Math.floor((whole % 3600) / 60))} m`;
  }
  return `${Math.floor(whole / 86_400)} d ${Math.floor((whole % 86_400) / 3600)} h`;
}

/** Seconds between two instants; to now when there is no second one yet. */
export function between(start: string | null, end: string | null, now = Date.now()): number | null {
  if (start === null) {
    return null;
  }
  return Math.max(0, ((end === null ? now : Date.parse(end)) - Date.parse(start)) / 1000);
}

/** 14:03:22 today, 12 Nov 14:03 in this year, 2025-11-12 14:03 before it; on the reader's clock. */
export function moment(instant: string, now = new Date()): string {
  const at = new Date(instant);
  const time = `${pad(at.getHours())}:${pad(at.getMinutes())}`;
  if (at.toDateString() === now.toDateString()) {
    return `${time}:${pad(at.getSeconds())}`;
  }
  if (at.getFullYear() === now.getFullYear()) {
    return `${at.getDate()} ${MONTHS[at.getMonth()]} ${time}`;
  }
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${time}`;
}

/** just now, 40 s ago, 5 m ago, in 3 h. */
export function ago(instant: string, now = Date.now()): string {
  const seconds = (now - Date.parse(instant)) / 1000;
  const size = Math.abs(seconds);
  if (size < 5) {
    return "just now";
  }
  const [step, unit] = STEPS.find(([step]) => size >= step) ?? [1, "s"];
  const told = `${Math.floor(size / step)} ${unit}`;
  return seconds > 0 ? `${told} ago` : `in ${told}`;
}

/** 12,000. By hand: the browser's own way loads the rules of all languages first, which holds a page up. */
export function count(number: number): string {
  return String(number).replaceAll(THOUSANDS, ",");
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function bytes(size: number): string {
  if (size < 1024) {
    return `${size} B`;
  }
  const [step, unit] = size < 1_048_576 ? [1024, "KiB"] : [1_048_576, "MiB"];
  return `${(size / step).toFixed(1)} ${unit}`;
}

const THOUSANDS = /\B(?=(\d{3})+$)/g;
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const STEPS: [number, string][] = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "m"],
  [1, "s"],
];

function pad(number: number): string {
  return String(number).padStart(2, "0");
}
