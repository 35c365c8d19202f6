import { expect, test } from "vitest";
import { durationData, sumBuckets, throughputData } from "./chart_data";
import { parseOperationsSearch } from "./search";
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

test("throughput is per minute for any bucket size", () => {
  const { times, series } = throughputData(ACTIVITY);
  expect(times).toEqual([600, 630]);
  expect(series.find(({ name }) => name === "Completed")?.values).toEqual([6, 0]);
  expect(series.find(({ name }) => name === "Failed")?.values).toEqual([0, 4]);
});

test("a bucket without finished jobs has no duration", () => {
  expect(durationData(ACTIVITY).series.map(({ values }) => values)).toEqual([
    [0.5, null],
    [2, null],
  ]);
});

test("series of a chart differ by more than color", () => {
  for (const { series } of [throughputData(ACTIVITY), durationData(ACTIVITY)]) {
    expect(new Set(series.map(({ dash }) => dash.join())).size).toBe(series.length);
  }
});

test("all buckets are summed", () => {
  expect(sumBuckets(ACTIVITY)).toEqual({ submitted: 5, completed: 3, failed: 2, cancelled: 0 });
});

test("only offered time ranges are accepted", () => {
  expect(parseOperationsSearch({ minutes: "15" })).toEqual({ minutes: 15 });
  expect(parseOperationsSearch({ minutes: 17 })).toEqual({});
});
