import { describe, expect, it } from "vitest";
import { ago, between, bytes, count, duration, moment, plural } from "./format";

describe("duration", () => {
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
  ])("tells %s seconds as %s", (seconds, told) => {
    expect(duration(seconds)).toBe(told);
  });
});

describe("between", () => {
  it("counts to now while there is no end", () => {
    expect(between("2026-01-01T00:00:00Z", null, Date.parse("2026-01-01T00:00:05Z"))).toBe(5);
  });

  it("is nothing before the start", () => {
    expect(between(null, null)).toBeNull();
  });

  it("is never negative, whatever two clocks say", () => {
    expect(between("2026-01-01T00:00:05Z", "2026-01-01T00:00:04Z")).toBe(0);
  });
});

describe("moment", () => {
  const now = new Date(2026, 10, 16, 12, 0, 0);

  it("leaves out what is as today", () => {
    expect(moment(new Date(2026, 10, 16, 9, 5, 7).toISOString(), now)).toBe("09:05:07");
    expect(moment(new Date(2026, 2, 3, 9, 5, 7).toISOString(), now)).toBe("3 Mar 09:05");
    expect(moment(new Date(2025, 2, 3, 9, 5, 7).toISOString(), now)).toBe("2025-03-03 09:05");
  });
});

describe("ago", () => {
  const now = Date.parse("2026-01-01T12:00:00Z");

  it.each([
    ["2026-01-01T11:59:57Z", "just now"],
    ["2026-01-01T11:59:20Z", "40 s ago"],
    ["2026-01-01T11:01:00Z", "59 m ago"],
    ["2025-12-30T12:00:00Z", "2 d ago"],
    ["2026-01-01T15:00:00Z", "in 3 h"],
  ])("tells %s as %s", (instant, told) => {
    expect(ago(instant, now)).toBe(told);
  });
});

it("groups the digits of a number", () => {
  expect([0, 999, 1_000, 10_000, 1_234_567, -999, -12_000].map(count)).toEqual([
    "0",
    "999",
    "1,000",
    "10,000",
    "1,234,567",
    "-999",
    "-12,000",
  ]);
});

it("counts things in words", () => {
  expect(plural(1, "job")).toBe("1 job");
  expect(plural(12_000, "entry", "entries")).toBe("12,000 entries");
  expect(bytes(1_572_864)).toBe("1.5 MiB");
});
