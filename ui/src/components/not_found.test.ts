import { expect, test } from "vitest";
import { ApiError } from "../api/client";
import { isNotFound } from "./not_found";

test("a missing thing and an invalid id are not found", () => {
  expect(isNotFound(new ApiError(404, "job not found"))).toBe(true);
  expect(isNotFound(new ApiError(422, "invalid id"))).toBe(true);
});

test("other errors do not say whether it exists", () => {
  expect(isNotFound(new ApiError(0, "unreachable"))).toBe(false);
  expect(isNotFound(new ApiError(503, "unavailable"))).toBe(false);
  expect(isNotFound(null)).toBe(false);
});
