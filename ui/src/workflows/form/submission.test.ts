import { expect, test } from "vitest";
import { NO_EXTRAS, submissionOf, wrongExtras } from "./submission";

test("only what was filled in is sent", () => {
  expect(submissionOf("order", undefined, { a: 1 }, NO_EXTRAS)).toEqual({ workflow_id: "order", input_data: { a: 1 } });
});

test("a version is a number or an alias, and an instant has an offset", () => {
  const extras = { idempotencyKey: " key ", priority: "-5", scheduledAt: "2030-01-31T08:00" };
  expect(submissionOf("order", "2", {}, extras)).toEqual({
    workflow_id: "order",
    input_data: {},
    version: 2,
    idempotency_key: "key",
    priority: -5,
    scheduled_at: new Date("2030-01-31T08:00").toISOString(),
  });
  expect(submissionOf("order", "live", {}, NO_EXTRAS)).toMatchObject({ version: "live" });
});

test.each([
  [{ priority: "1001" }, "priority"],
  [{ priority: "1.5" }, "priority"],
  [{ priority: "much" }, "priority"],
  [{ scheduledAt: "soon" }, "scheduled_at"],
  [{ idempotencyKey: "two words" }, "idempotency_key"],
])("%o is refused at %s", (extras, path) => {
  expect(wrongExtras({ ...NO_EXTRAS, ...extras }).map((wrong) => wrong.path)).toEqual([path]);
});

test("nothing wrong is found in nothing", () => {
  expect(wrongExtras(NO_EXTRAS)).toEqual([]);
});
