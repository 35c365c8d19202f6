import { expect, test } from "vitest";
import { pageTitle } from "./page_title";

test("a page title starts with its most specific part", () => {
  expect(pageTitle(["hello", "Workflows"])).toBe("hello · Workflows · Windlass");
});

test("parts that are not loaded are omitted", () => {
  expect(pageTitle([undefined, "Jobs"])).toBe("Jobs · Windlass");
  expect(pageTitle([])).toBe("Windlass");
});
