// Converts activity buckets into the data of charts.

import type { Activity, Bucket } from "./types";

export interface Series {
  name: string;
  /** The CSS variable of its color. */
  color: string;
  /** Series differ by dashes too, not by color alone. */
  dash: number[];
  values: (number | null)[];
}

export interface ChartData {
  /** Seconds since the epoch. */
  times: number[];
  series: Series[];
}

/** Jobs per minute. */
export function throughputData(activity: Activity): ChartData {
  const rate = (count: (bucket: Bucket) => number) =>
    activity.buckets.map((bucket) => (count(bucket) * 60) / activity.bucket_seconds);
  return {
    times: timesOf(activity),
    series: [
      { name: "Submitted", color: "--pending", dash: [2, 3], values: rate((bucket) => bucket.submitted) },
      { name: "Completed", color: "--completed", dash: [], values: rate((bucket) => bucket.completed) },
      { name: "Failed", color: "--failed", dash: [6, 3], values: rate((bucket) => bucket.failed) },
      { name: "Cancelled", color: "--cancelled", dash: [8, 3, 2, 3], values: rate((bucket) => bucket.cancelled) },
    ],
  };
}

/** Durations of jobs in seconds. */
export function durationData(activity: Activity): ChartData {
  return {
    times: timesOf(activity),
    series: [
      { name: "p50", color: "--running", dash: [], values: activity.buckets.map((bucket) => bucket.p50_seconds) },
      { name: "p95", color: "--waiting", dash: [6, 3], values: activity.buckets.map((bucket) => bucket.p95_seconds) },
    ],
  };
}

export interface Totals {
  submitted: number;
  completed: number;
  failed: number;
  cancelled: number;
}

export function sumBuckets(activity: Activity): Totals {
  const totals: Totals = { submitted: 0, completed: 0, failed: 0, cancelled: 0 };
  for (const bucket of activity.buckets) {
    totals.submitted += bucket.submitted;
    totals.completed += bucket.completed;
    totals.failed += bucket.failed;
    totals.cancelled += bucket.cancelled;
  }
  return totals;
}

function timesOf(activity: Activity): number[] {
  return activity.buckets.map((bucket) => Date.parse(bucket.at) / 1000);
}
