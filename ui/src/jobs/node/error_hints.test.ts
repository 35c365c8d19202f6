import { expect, test } from "vitest";
import { errorHint } from "./error_hints";

test("the hint of the error comes first", () => {
  expect(errorHint({ type: "timeout", hint: "request less data" })).toBe("request less data");
});

test("an upstream failure refers to the upstream node", () => {
  expect(errorHint({ type: "upstream_failed", retryable: false })).toContain("an upstream node failed");
});

test("the failure class is used for unknown types", () => {
  expect(errorHint({ type: "busy", failure_class: "rate_limited" })).toContain("rate of requests");
});

test("denied access refers to the connection", () => {
  expect(errorHint({ type: "http_status", status: 403 })).toContain("connection or secret");
});

test("an unknown error has no hint", () => {
  expect(errorHint({ type: "busy", message: "later" })).toBeNull();
});
