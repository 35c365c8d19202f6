import { expect, test } from "vitest";
import { inputOf } from "./input_text";

test("an object is an input", () => {
  expect(inputOf('{"name": "Ada"}')).toEqual({ input: { name: "Ada" }, problem: null });
});

test("nothing is an empty input", () => {
  expect(inputOf("  \n")).toEqual({ input: {}, problem: null });
});

test("a list, a number or null is refused and says what is wanted", () => {
  for (const text of ["[1]", "3", "null"]) {
    expect(inputOf(text)).toEqual({ input: null, problem: expect.stringContaining("an object") });
  }
});

test("what is no JSON says so", () => {
  expect(inputOf("{name: 1}").problem).toContain("no JSON");
});
