import { describe, expect, it } from "vitest";
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatRelativeTime,
  formatTimestamp,
  pluralize,
  secondsBetween,
} from "./format";

describe("formatDuration", () => {
  it.each([
    [0.0004, "0.4 ms"],
    [0.012, "12 ms"],
    [0.9994, "999 ms"],
    [3.2, "3.20 s"],
    [42.25, "42.3 s"],
    [59.999, "1 m 00 s"],
    [125, "2 m 05 s"],
    [3_599.9, "1 h 00 m"],
    [11_520, "3 h 12 m"],
    [352_800, "4 d 2 h"],
  ])("formats %s seconds as %s", (seconds, text) => {
    expect(formatDuration(seconds)).toBe(text);
  });
});

describe("secondsBetween", () => {
  it("counts to now while there is no end", () => {
    expect(secondsBetween("2026-01-01T00:00:00Z", null, Date.parse("2026-01-01T00:00:05Z"))).toBe(5);
  });

  it("is null before the start", () => {
    expect(secondsBetween(null, null)).toBeNull();
  });

  it("is never negative when clocks differ", () => {
    expect(secondsBetween("2026-01-01T00:00:05Z", "2026-01-01T00:00:04Z")).toBe(0);
  });
});

describe("formatTimestamp", () => {
  const now = new Date(2026, 10, 16, 12, 0, 0);

  it("omits the parts that equal today", () => {
    expect(formatTimestamp(new Date(2026, 10, 16, 9, 5, 7).toISOString(), now)).toBe("09:05:07");
    expect(formatTimestamp(new Date(2026, 2, 3, 9, 5, 7).toISOString(), now)).toBe("3 Mar 09:05");
    expect(formatTimestamp(new Date(2025, 2, 3, 9, 5, 7).toISOString(), now)).toBe("2025-03-03 09:05");
  });
});

describe("formatRelativeTime", () => {
  const now = Date.parse("2026-01-01T12:00:00Z");

  it.each([
    ["2026-01-01T11:59:57Z", "just now"],
    ["2026-01-01T11:59:20Z", "40 s ago"],
    ["2026-01-01T11:01:00Z", "59 m ago"],
    ["2025-12-30T12:00:00Z", "2 d ago"],
    ["2026-01-01T15:00:00Z", "in 3 h"],
  ])("formats %s as %s", (timestamp, text) => {
    expect(formatRelativeTime(timestamp, now)).toBe(text);
  });
});

it("formatCount groups digits", () => {
  expect([0, 999, 1_000, 10_000, 1_234_567, -999, -12_000].map(formatCount)).toEqual([
    "0",
    "999",
    "1,000",
    "10,000",
    "1,234,567",
    "-999",
    "-12,000",
  ]);
});

it("pluralizes nouns and formats sizes", () => {
  expect(pluralize(1, "job")).toBe("1 job");
  expect(pluralize(12_000, "entry", "entries")).toBe("12,000 entries");
  expect(formatBytes(1_572_864)).toBe("1.5 MiB");
});
