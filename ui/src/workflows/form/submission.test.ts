import { expect, test } from "vitest";
import { NO_OPTIONS, submitBody, validateOptions } from "./submission";

test("empty options are omitted", () => {
  expect(submitBody("order", undefined, { a: 1 }, NO_OPTIONS)).toEqual({ workflow_id: "order", input_data: { a: 1 } });
});

test("a version is a number or an alias, and a start time has an offset", () => {
  const options = { idempotencyKey: " key ", priority: "-5", scheduledAt: "2030-01-31T08:00" };
  expect(submitBody("order", "2", {}, options)).toEqual({
    workflow_id: "order",
    input_data: {},
    version: 2,
    idempotency_key: "key",
    priority: -5,
    scheduled_at: new Date("2030-01-31T08:00").toISOString(),
  });
  expect(submitBody("order", "live", {}, NO_OPTIONS)).toMatchObject({ version: "live" });
});

test.each([
  [{ priority: "1001" }, "priority"],
  [{ priority: "1.5" }, "priority"],
  [{ priority: "much" }, "priority"],
  [{ scheduledAt: "soon" }, "scheduled_at"],
  [{ idempotencyKey: "two words" }, "idempotency_key"],
])("%o is invalid in %s", (options, path) => {
  expect(validateOptions({ ...NO_OPTIONS, ...options }).map((error) => error.path)).toEqual([path]);
});

test("empty options are valid", () => {
  expect(validateOptions(NO_OPTIONS)).toEqual([]);
});
