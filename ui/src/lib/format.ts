// Formats timestamps, durations and numbers for display.

/** 0.4 ms, 12 ms, 3.20 s, 2 m 05 s, 3 h 12 m, 4 d 2 h. */
export function formatDuration(seconds: number): string {
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

/** Seconds between two timestamps, or until now without an end. */
export function secondsBetween(start: string | null, end: string | null, now = Date.now()): number | null {
  if (start === null) {
    return null;
  }
  return Math.max(0, ((end === null ? now : Date.parse(end)) - Date.parse(start)) / 1000);
}

/** 14:03:22 today, 12 Nov 14:03 this year, 2025-11-12 14:03 in another year; in local time. */
export function formatTimestamp(timestamp: string, now = new Date()): string {
  const at = new Date(timestamp);
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
export function formatRelativeTime(timestamp: string, now = Date.now()): string {
  const seconds = (now - Date.parse(timestamp)) / 1000;
  const size = Math.abs(seconds);
  if (size < 5) {
    return "just now";
  }
  const [step, unit] = STEPS.find(([step]) => size >= step) ?? [1, "s"];
  const text = `${Math.floor(size / step)} ${unit}`;
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

/** 12,000. Not toLocaleString: its first call loads all locale data and blocks the page. */
export function formatCount(number: number): string {
  return String(number).replaceAll(THOUSANDS, ",");
}

export function pluralize(number: number, singular: string, plural = `${singular}s`): string {
  return `${formatCount(number)} ${number === 1 ? singular : plural}`;
}

export function formatBytes(size: number): string {
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
