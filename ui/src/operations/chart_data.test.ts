import { expect, test } from "vitest";
import { latencyOf, throughputOf, totalsOf } from "./chart_data";
import { operationsSearchOf } from "./search";
import type { Activity, Bucket } from "./types";

function bucket(second: number, numbers: Partial<Bucket>): Bucket {
  const at = new Date(second * 1000).toISOString();
  return { at, submitted: 0, completed: 0, failed: 0, cancelled: 0, p50_seconds: null, p95_seconds: null, ...numbers };
}

const ACTIVITY: Activity = {
  bucket_seconds: 30,
  unfinished: 1,
  truncated: false,
  buckets: [
    bucket(600, { submitted: 4, completed: 3, p50_seconds: 0.5, p95_seconds: 2 }),
    bucket(630, { submitted: 1, failed: 2 }),
  ],
};

test("throughput is told by the minute, whatever the stretches are", () => {
  const { at, lines } = throughputOf(ACTIVITY);
  expect(at).toEqual([600, 630]);
  expect(lines.find((line) => line.name === "Completed")?.values).toEqual([6, 0]);
  expect(lines.find((line) => line.name === "Failed")?.values).toEqual([0, 4]);
});

test("a stretch in which no job ended has no latency", () => {
  expect(latencyOf(ACTIVITY).lines.map((line) => line.values)).toEqual([
    [0.5, null],
    [2, null],
  ]);
});

test("lines of a chart differ by more than their colour", () => {
  for (const { lines } of [throughputOf(ACTIVITY), latencyOf(ACTIVITY)]) {
    expect(new Set(lines.map((line) => line.dash.join())).size).toBe(lines.length);
  }
});

test("all stretches are added up", () => {
  expect(totalsOf(ACTIVITY)).toEqual({ submitted: 5, completed: 3, failed: 2, cancelled: 0 });
});

test("an address names one of the spans there are", () => {
  expect(operationsSearchOf({ minutes: "15" })).toEqual({ minutes: 15 });
  expect(operationsSearchOf({ minutes: 17 })).toEqual({});
});
