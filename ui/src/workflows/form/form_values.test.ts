import { expect, test } from "vitest";
import type { Json } from "../../api/types";
import { boundsInWords, byField, type Draft, draftOf, entry, initial, jsonOf } from "./form_values";
import { type Field, formOf, type GroupField } from "./schema_form";

const ORDER = {
  type: "object",
  required: ["customer", "quantity"],
  properties: {
    express: { type: "boolean", default: false },
    customer: { type: "string", minLength: 2, pattern: "^[A-Z]", description: "Who ordered" },
    quantity: { type: "integer", minimum: 1, maximum: 10, default: 3 },
    size: { enum: ["small", "large"], default: "large" },
    tags: { type: "array", items: { type: "string" }, maxItems: 2 },
    address: {
      type: "object",
      required: ["city"],
      properties: { city: { type: "string" }, lines: { type: "array", items: { $ref: "#/$defs/line" } } },
    },
    anything: {},
  },
  $defs: { line: { type: "object", required: ["sku"], properties: { sku: { type: "string" } } } },
};

function form(schema: { [key: string]: Json } = ORDER): GroupField {
  const made = formOf(schema);
  if (made === null) {
    throw new Error("the schema has no form");
  }
  return made;
}

function field(name: string): Field {
  const found = form().fields.find((one) => one.name === name);
  if (found === undefined) {
    throw new Error(`there is no field ${name}`);
  }
  return found;
}

function filled(changes: { [name: string]: Draft }): ReturnType<typeof jsonOf> {
  return jsonOf(form(), { ...(initial(form()) as { [name: string]: Draft }), ...changes });
}

test("every kind of schema has its field, and what is required comes first", () => {
  expect(form().fields.map(({ name, kind, required }) => `${name} ${kind}${required ? "!" : ""}`)).toEqual([
    "customer text!",
    "quantity number!",
    "express switch",
    "size choice",
    "tags list",
    "address group",
    "anything json",
  ]);
});

test("a schema without properties has no form", () => {
  expect(formOf(undefined)).toBeNull();
  expect(formOf({ type: "object" })).toBeNull();
});

test("a fresh form gives the defaults, and leaves out what nobody filled in", () => {
  expect(filled({ customer: "Ada" })).toEqual({
    value: { customer: "Ada", quantity: 3, express: false, size: "large" },
    wrong: [],
  });
});

test("what is required and missing is told at its field", () => {
  expect(filled({}).wrong).toEqual([{ path: "customer", message: "is required" }]);
});

test("an optional group that was begun lacks what it requires", () => {
  const line = entry({ sku: "" });
  expect(filled({ customer: "Ada", address: { city: "", lines: [line] } }).wrong).toEqual([
    { path: "address.city", message: "is required" },
    { path: "address.lines[0].sku", message: "is required" },
  ]);
});

test("lists and nested objects become JSON", () => {
  const address = { city: "Paris", lines: [entry({ sku: "x1" }), entry({ sku: "x2" })] };
  const { value } = filled({ customer: "Ada", tags: [entry("a"), entry("b")], address, anything: "[1, null]" });
  expect(value).toMatchObject({
    tags: ["a", "b"],
    address: { city: "Paris", lines: [{ sku: "x1" }, { sku: "x2" }] },
    anything: [1, null],
  });
});

test.each([
  ["quantity", "0", "is less than 1"],
  ["quantity", "11", "is more than 10"],
  ["quantity", "2.5", "is not a whole number"],
  ["quantity", "many", "is not a number"],
  ["customer", "A", "has fewer than 2 characters"],
  ["customer", "ada", "does not match ^[A-Z]"],
])("%s %s %s", (name, typed, message) => {
  expect(filled({ customer: "Ada", [name]: typed }).wrong).toEqual([{ path: name, message }]);
});

test("exclusive bounds are outside", () => {
  const schema = form({ properties: { price: { type: "number", exclusiveMinimum: 0 } } });
  expect(jsonOf(schema, { price: "0" }).wrong).toEqual([{ path: "price", message: "must be more than 0" }]);
  expect(jsonOf(schema, { price: "0.01" }).wrong).toEqual([]);
});

test("too many entries and bad JSON are told", () => {
  const wrong = filled({ customer: "Ada", tags: [entry("a"), entry("b"), entry("c")], anything: "{" }).wrong;
  expect(wrong[0]).toEqual({ path: "tags", message: "has more than 2 entries" });
  expect(wrong[1]?.message).toMatch(/^is not JSON/);
});

test("a value goes into the fields and comes back the same", () => {
  const value = { customer: "Ada", quantity: 1, tags: ["x"], address: { city: "Rome", lines: [{ sku: "1" }] } };
  const draft = draftOf(form(), value);
  expect(draft && jsonOf(form(), draft).value).toEqual(value);
});

test("a value that the fields can not show is left to JSON", () => {
  expect(draftOf(form(), { customer: "Ada", other: 1 })).toBeNull();
  expect(draftOf(form(), { customer: 7 })).toBeNull();
  expect(draftOf(form(), { size: "huge" })).toBeNull();
});

test("a type that may be null is the field of the other type", () => {
  expect(form({ properties: { name: { type: ["string", "null"] } } }).fields[0]?.kind).toBe("text");
});

test("a schema that refers to itself ends in JSON", () => {
  const schema = {
    properties: { child: { $ref: "#/$defs/tree" } },
    $defs: { tree: { type: "object", properties: { child: { $ref: "#/$defs/tree" } } } },
  };
  expect(JSON.stringify(form(schema))).toContain('"kind":"json"');
});

test("alternatives are typed as JSON", () => {
  expect(form({ properties: { one: { oneOf: [{ type: "string" }, { type: "number" }] } } }).fields[0]?.kind).toBe(
    "json",
  );
});

test("the server's problems stand at their fields, missing ones at what is missing", () => {
  const found = byField([
    { path: "", message: '"customer" is a required property' },
    { path: "address.lines[0]", message: '"sku" is a required property' },
    { path: "quantity", message: "3000 is greater than the maximum of 400" },
  ]);
  expect(Object.fromEntries(found)).toEqual({
    customer: ["is required"],
    "address.lines[0].sku": ["is required"],
    quantity: ["3000 is greater than the maximum of 400"],
  });
});

test("bounds are told in words", () => {
  expect(boundsInWords(field("quantity"))).toBe("whole number, 1 to 10");
  expect(boundsInWords(field("customer"))).toBe("at least 2 characters, matches ^[A-Z]");
});
