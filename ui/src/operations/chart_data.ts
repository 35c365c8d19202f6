// What happened in each stretch of time, as the columns that a chart draws.

import type { Activity, Bucket } from "./types";

export interface Line {
  name: string;
  /** The token of its colour. */
  tone: string;
  /** Lines differ by their dashes too. */
  dash: number[];
  values: (number | null)[];
}

export interface Columns {
  /** Seconds since 1970, as charts count. */
  at: number[];
  lines: Line[];
}

/** Jobs a minute. */
export function throughputOf(activity: Activity): Columns {
  const rate = (pick: (bucket: Bucket) => number) =>
    activity.buckets.map((bucket) => (pick(bucket) * 60) / activity.bucket_seconds);
  return {
    at: instantsOf(activity),
    lines: [
      { name: "Submitted", tone: "--pending", dash: [2, 3], values: rate((bucket) => bucket.submitted) },
      { name: "Completed", tone: "--completed", dash: [], values: rate((bucket) => bucket.completed) },
      { name: "Failed", tone: "--failed", dash: [6, 3], values: rate((bucket) => bucket.failed) },
      { name: "Cancelled", tone: "--cancelled", dash: [8, 3, 2, 3], values: rate((bucket) => bucket.cancelled) },
    ],
  };
}

/** Seconds that jobs took. */
export function latencyOf(activity: Activity): Columns {
  return {
    at: instantsOf(activity),
    lines: [
      { name: "p50", tone: "--running", dash: [], values: activity.buckets.map((bucket) => bucket.p50_seconds) },
      { name: "p95", tone: "--waiting", dash: [6, 3], values: activity.buckets.map((bucket) => bucket.p95_seconds) },
    ],
  };
}

export interface Totals {
  submitted: number;
  completed: number;
  failed: number;
  cancelled: number;
}

export function totalsOf(activity: Activity): Totals {
  const totals: Totals = { submitted: 0, completed: 0, failed: 0, cancelled: 0 };
  for (const bucket of activity.buckets) {
    totals.submitted += bucket.submitted;
    totals.completed += bucket.completed;
    totals.failed += bucket.failed;
    totals.cancelled += bucket.cancelled;
  }
  return totals;
}

function instantsOf(activity: Activity): number[] {
  return activity.buckets.map((bucket) => Date.parse(bucket.at) / 1000);
}
