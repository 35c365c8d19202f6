import { expect, test } from "vitest";
import { objectOf } from "./json_object";

test("an object is read", () => {
  expect(objectOf('{"name": "Ada"}')).toEqual({ value: { name: "Ada" } });
});

test("nothing is the empty object", () => {
  expect(objectOf("  \n")).toEqual({ value: {} });
});

test.each(["[1]", "3", "null"])("%s is refused and says what is wanted", (text) => {
  expect(objectOf(text)).toEqual({ problem: expect.stringContaining("object") });
});

test("what is not JSON says so", () => {
  expect(objectOf("{name: 1}")).toEqual({ problem: expect.stringContaining("not JSON") });
});
