import { expect, test } from "vitest";
import { adviceOn } from "./error_hints";

test("the hint of the error comes before any other", () => {
  expect(adviceOn({ type: "timeout", hint: "ask for less" })).toBe("ask for less");
});

test("what failed with a node before it is told to wait for that one", () => {
  expect(adviceOn({ type: "upstream_failed", retryable: false })).toContain("a node before it failed");
});

test("the class of a failure helps where its type is not known", () => {
  expect(adviceOn({ type: "busy", failure_class: "rate_limited" })).toContain("fewer calls");
});

test("a refusal of who asked points at the connection", () => {
  expect(adviceOn({ type: "http_status", status: 403 })).toContain("connection or secret");
});

test("an error of which nothing is known gets no advice", () => {
  expect(adviceOn({ type: "busy", message: "later" })).toBeNull();
});
