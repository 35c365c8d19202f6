import { expect, test } from "vitest";
import { parseJsonObject } from "./json_object";

test("an object is parsed", () => {
  expect(parseJsonObject('{"name": "Ada"}')).toEqual({ value: { name: "Ada" } });
});

test("blank text is the empty object", () => {
  expect(parseJsonObject("  \n")).toEqual({ value: {} });
});

test.each(["[1]", "3", "null"])("%s is rejected", (text) => {
  expect(parseJsonObject(text)).toEqual({ error: expect.stringContaining("object") });
});

test("invalid JSON is rejected", () => {
  expect(parseJsonObject("{name: 1}")).toEqual({ error: expect.stringContaining("Invalid JSON") });
});
